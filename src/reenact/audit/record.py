"""Audit records: the closed list of actions, their required fields, and the bytes of a leaf.

An action is never removed and never changes its meaning. A new action only needs a line in
:data:`ACTIONS`. A reader can verify a record with an action that it does not support.

The leaf is the canonical JSON (RFC 8785) of the record and is stored as bytes. A verifier hashes the
stored bytes and never encodes a record again, so unknown fields and records of later versions are
covered too. A record contains no payloads, only digests (:mod:`reenact.audit.replay_proof`), ids, and
the reasons that users typed.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec

from reenact.audit.keys import MAX_SIZE
from reenact.errors import AuditInvalid, ValueRefused
from reenact.format.canonical import decode, jcs

__all__ = [
    "ACTIONS",
    "MAX_RECORD",
    "OUTCOMES",
    "VERSION",
    "Actor",
    "Change",
    "DiffSummary",
    "Envelope",
    "Record",
    "Source",
    "Subject",
    "Target",
    "check_record",
    "encode_record",
    "open_envelope",
    "read_record",
]

OUTCOMES: Final = frozenset({"ok", "failed", "denied", "refused", "cancelled", "expired"})
"""``denied`` is for want of a permission or tier, ``refused`` for any other reason."""

_CHANGE: Final = ("subject", "permission", "outcome")

ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    # A replay is two records: what is wanted, before anything runs, and what came of it.
    "replay.requested": (
        "env",
        "source",
        "replay_id",
        "boundaries",
        "payload_digest_before",
        "payload_digest_after",
        "permission",
        "tier",
    ),
    "replay.finished": ("env", "source", "replay_id", "outcome"),
    "replay.cancelled": ("env", "source", "replay_id", "permission", "outcome"),
    "replay.denied": ("env", "source", "permission", "code", "outcome"),
    "access.denied": ("permission", "code", "outcome"),
    "session.opened": ("outcome",),
    "session.closed": ("outcome",),
    "session.refused": ("code", "outcome"),
    "user.created": _CHANGE,
    "user.changed": _CHANGE,
    "user.removed": _CHANGE,
    "key.created": _CHANGE,
    "key.revoked": _CHANGE,
    "role.granted": _CHANGE,
    "role.revoked": _CHANGE,
    "tenant.created": _CHANGE,
    "tenant.changed": _CHANGE,
    "tier.changed": (*_CHANGE, "tier"),
    "environment.changed": _CHANGE,
    "noise.changed": _CHANGE,
    "batch.confirmed": _CHANGE,
    "batch.cancelled": _CHANGE,
    "agent.registered": ("env", "subject", "outcome"),
    "agent.refused": ("env", "subject", "code", "outcome"),
    "audit.read": ("permission", "outcome"),
    "audit.exported": ("permission", "outcome"),
    "data.exported": _CHANGE,
    "retention.changed": _CHANGE,
    "retention.applied": ("subject", "outcome"),
    "log.opened": (),
    "log.rotated": ("rotation",),
}
"""The actions of version 1, each with the fields of a record that must not be empty."""


VERSION: Final = 1
MAX_RECORD: Final = 65_536
"""Bytes of one record. A larger patch is stated by its digest alone."""

Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_SIZE)]
T = TypeVar("T")


class Actor(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """User or system that acted.

    ``type`` is ``user``, ``key``, ``agent`` or ``system``. ``auth`` is the authentication method.
    ``credential`` is the id of the session or key, never the secret itself.
    """

    type: str
    id: str
    auth: str = ""
    credential: str = ""
    ip: str = ""
    ua: str = ""


class Source(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The exchange that is replayed, and the route as it was when it was recorded."""

    exchange_id: str
    digest: str = ""
    route_id: str = ""
    revision: str = ""


class Target(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """App agent, app and revision that run a replay."""

    agent_id: str = ""
    app: str = ""
    revision: str = ""


class Subject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Object of an administrative action: a user, a key, a tenant, an exchange …"""

    type: str
    id: str


class Change(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One edit of a payload (an operation of RFC 6902), with salted digests in place of values."""

    op: str
    path: str
    from_path: str = msgspec.field(default="", name="from")
    before: str = ""
    after: str = ""


class DiffSummary(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Differences between a replay and its source, in numbers."""

    verdict: str = ""
    added: Number = 0
    removed: Number = 0
    changed: Number = 0


class Envelope(msgspec.Struct, frozen=True, rename="camel"):
    """Fields of every record of every version, which are sufficient for verification."""

    v: Annotated[int, msgspec.Meta(ge=1, le=MAX_SIZE)]
    tenant: str
    seq: Number
    at: Number
    action: str
    prev_head_size: Number
    rotation: str = ""


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One record. ``seq``, ``at`` and ``prev_head_size`` are set when it is appended
    (:meth:`reenact.audit.log.Log.append`); ``at`` is in milliseconds since the epoch, UTC."""

    tenant: str
    actor: Actor
    action: str
    seq: Number = 0
    at: Number = 0
    prev_head_size: Number = 0
    v: int = VERSION
    env: str = ""
    source: Source | None = None
    target: Target | None = None
    replay_id: str = ""
    boundaries: str = ""
    patch: tuple[Change, ...] = ()
    payload_digest_before: str = ""
    payload_digest_after: str = ""
    command_digest: str = ""
    reason: str = ""
    permission: str = ""
    tier: str = ""
    outcome: str = ""
    code: str = ""
    result_exchange_id: str = ""
    result_digest: str = ""
    trace_digest: str = ""
    diff_summary: DiffSummary | None = None
    subject: Subject | None = None
    details: dict[str, str] = {}
    rotation: str = ""


def check_record(record: Record) -> None:
    """Check that ``record`` can be written: a known action of this version with all required
    fields.

    Raises :class:`AuditInvalid` otherwise.
    """
    required = ACTIONS.get(record.action)
    if required is None or record.v != VERSION:
        raise _refused(f"action {record.action!r} does not exist in version {record.v}")
    missing = [name for name in required if not getattr(record, name)]
    if missing:
        raise _refused(f"{record.action} requires {', '.join(missing)}")
    if record.outcome and record.outcome not in OUTCOMES:
        raise _refused(f"no outcome is called {record.outcome!r}")
    if not record.tenant or not record.actor.type or not record.actor.id:
        raise _refused("every record has a tenant and an actor with type and id")


def encode_record(record: Record) -> bytes:
    """The leaf of ``record``: one line without its newline. Raises :class:`AuditInvalid`."""
    check_record(record)
    fixed = {
        "v": record.v,
        "seq": record.seq,
        "at": record.at,
        "prevHeadSize": record.prev_head_size,
    }
    value = {**msgspec.to_builtins(record), **fixed}
    _convert(value, Record)  # constructors check no types and no ranges
    try:
        leaf = jcs(value)
    except ValueRefused as error:
        raise _refused(error.message) from None
    if len(leaf) > MAX_RECORD:
        raise _refused(f"it has {len(leaf)} bytes, more than {MAX_RECORD}")
    return leaf


def open_envelope(leaf: bytes) -> Envelope:
    """Return the fields of a leaf of any version that verification needs.

    Raises :class:`AuditInvalid` unless it is canonical JSON that contains them.
    """
    return _convert(_read(leaf), Envelope)


def read_record(leaf: bytes) -> Record:
    """A record of this version. Fields that are not known here are left out, and stay in the leaf.

    Raises :class:`AuditInvalid` for a record of a later version, too.
    """
    value = _read(leaf)
    if _convert(value, Envelope).v != VERSION:
        raise AuditInvalid(
            "a record of a later version",
            reason="record.version",
            hint="upgrade reenact in order to read it; it can be verified as it is",
        )
    return _convert(value, Record)


def _read(leaf: bytes) -> Any:
    if len(leaf) > MAX_RECORD:
        raise _malformed(f"it has more than {MAX_RECORD} bytes")
    try:
        value = decode(leaf)
        if jcs(value) != leaf:
            raise _malformed("it is not in canonical form")
    except ValueRefused as error:
        raise _malformed(error.message) from None
    return value


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _malformed(str(error)) from None


def _malformed(why: str) -> AuditInvalid:
    return AuditInvalid(f"not an audit record: {why}", reason="record.malformed")


def _refused(why: str) -> AuditInvalid:
    return AuditInvalid(f"this cannot be recorded: {why}", reason="record.refused")
