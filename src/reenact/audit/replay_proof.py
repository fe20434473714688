"""Proof of one replay in a file: the request, the outcome, and proofs that the log contains both.

The two records of a replay hold digests of the payloads and of the output, but no values. The file
adds the values with their salts, so that its owner can check the digests, and the inclusion proofs.
Only the verifier key must come from a different source.

Records are permanent, but values can be deleted. A plain digest of an amount or a name could be
guessed, so each value has its own *salt* of 32 random bytes. The salt is stored with the value and
deleted with it; afterwards the digest reveals nothing about the value.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from reenact.audit.keys import Key, strict_base64
from reenact.audit.proof import Proof, check_proof
from reenact.audit.record import Record, read_record
from reenact.errors import AuditInvalid, UsageError, ValueRefused
from reenact.format.canonical import canonical, decode, exact, plain

__all__ = [
    "SALT_SIZE",
    "SUFFIX",
    "Opening",
    "ReplayProof",
    "Shown",
    "check_replay_proof",
    "dump_replay_proof",
    "is_replay_proof",
    "matches_salted_digest",
    "parse_replay_proof",
    "salted_digest",
]

SALT_SIZE: Final = 32
_DOMAIN: Final = b"reenact audit value 1\n"


def salted_digest(value: Any, salt: bytes) -> str:
    """``hmac-sha256:<64 hex>`` of the canonical JSON of ``value`` under ``salt``.

    Raises :class:`UsageError` for a salt of another size: a short one can be guessed along, and
    HMAC treats some keys of different sizes alike. Raises :class:`ValueRefused` for what is not JSON.
    """
    if len(salt) != SALT_SIZE:
        raise UsageError(
            f"a salt has {SALT_SIZE} bytes, this one {len(salt)}", hint="use random bytes"
        )
    mark = hmac.new(salt, _DOMAIN + canonical(value), hashlib.sha256)
    return f"hmac-sha256:{mark.hexdigest()}"


def matches_salted_digest(digest: str, value: Any, salt: bytes) -> bool:
    """Is ``digest`` the salted digest of this value?"""
    return hmac.compare_digest(digest, salted_digest(value, salt))


SUFFIX: Final = ".replay-proof.json"
_MAX: Final = 64_000_000


class _Format(msgspec.Struct, frozen=True):
    name: Literal["reenact-replay-proof"] = "reenact-replay-proof"
    version: str = "1.0"


class Opening(msgspec.Struct, frozen=True):
    """Value and salt of a salted digest."""

    digest: str
    salt: bytes
    value: Any


class ReplayProof(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a replay proof file.

    ``requested`` and ``finished`` are proofs (``.tlog-proof``) of the two records; the second is
    empty while the replay is running. ``values`` are openings of their digests; deleted values are
    missing. ``key`` is the log's verifier key as stated by the sender, which must not be trusted.
    """

    replay_id: str
    key: str
    requested: str
    finished: str = ""
    values: tuple[Opening, ...] = ()


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Proven facts of a replay. A value that is missing in the proof is ``UNSET``."""

    replay_id: str
    tenant: str
    requested: Record
    finished: Record | None
    payload_before: Any = msgspec.UNSET
    payload_after: Any = msgspec.UNSET
    output: Any = msgspec.UNSET
    proven: tuple[str, ...] = ()
    not_proven: tuple[str, ...] = ()


class _Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    digest: str
    salt: str
    value: Any


class _File(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    format: _Format
    replay_id: str
    key: str
    requested: str
    finished: str = ""
    values: list[_Value] = []


def dump_replay_proof(proof: ReplayProof) -> bytes:
    """The file. The same proof gives the same bytes. Raises :class:`ValueRefused` for a value that
    is not JSON."""
    values = [
        {"digest": one.digest, "salt": b64encode(one.salt).decode(), "value": one.value}
        for one in proof.values
    ]
    return (
        exact(
            {
                "format": msgspec.to_builtins(_Format()),
                "replayId": proof.replay_id,
                "key": proof.key,
                "requested": proof.requested,
                "finished": proof.finished,
                "values": values,
            }
        )
        + b"\n"
    )


def is_replay_proof(data: bytes) -> bool:
    """Is ``data`` a JSON object, as no other file of a log is? Nothing is verified."""
    return data.lstrip()[:1] == b"{"


def parse_replay_proof(data: bytes) -> ReplayProof:
    """Read one strictly; nothing is verified. Raises :class:`AuditInvalid`."""
    if len(data) > _MAX:
        raise _malformed(f"it has more than {_MAX} bytes")
    try:
        found = msgspec.convert(decode(data), _File)
        values = tuple(map(_opening, found.values))
    except (ValueRefused, msgspec.ValidationError) as error:
        raise _malformed(str(error)) from None
    if found.format.version.partition(".")[0] != _Format().version.partition(".")[0]:
        raise AuditInvalid(
            "this proof of a replay has a later format",
            reason="replay.version",
            hint="upgrade reenact",
        )
    return ReplayProof(
        replay_id=found.replay_id,
        key=found.key,
        requested=found.requested,
        finished=found.finished,
        values=values,
    )


def _opening(one: _Value) -> Opening:
    salt = strict_base64(one.salt)
    if salt is None or len(salt) != SALT_SIZE:
        raise _malformed(f"the salt of {one.digest[:80]} is not {SALT_SIZE} bytes in base64")
    return Opening(one.digest, salt, plain(one.value))


def check_replay_proof(data: bytes, keys: Iterable[Key]) -> Shown:
    """Return the proven facts if a log that is signed by ``keys`` contains the records.

    Raises :class:`AuditInvalid` for an invalid proof of a record, records that do not belong
    together, and a value that does not match its digest.
    """
    found, keys = parse_replay_proof(data), list(keys)
    first, requested = _record(found.requested, keys, "replay.requested", found.replay_id)
    last: Proof | None = None
    finished: Record | None = None
    if found.finished:
        last, finished = _record(found.finished, keys, "replay.finished", found.replay_id)
        _check_together(first, requested, last, finished)
    values = _opened(found.values, requested, finished)
    result = finished.result_digest if finished is not None else ""
    return Shown(
        replay_id=found.replay_id,
        tenant=requested.tenant,
        requested=requested,
        finished=finished,
        payload_before=values.get(requested.payload_digest_before, msgspec.UNSET),
        payload_after=values.get(requested.payload_digest_after, msgspec.UNSET),
        output=values.get(result, msgspec.UNSET),
        proven=tuple(_proven(first, requested, finished, values)),
        not_proven=tuple(_not_proven(requested, finished, values)),
    )


def _record(text: str, keys: list[Key], action: str, replay_id: str) -> tuple[Proof, Record]:
    proof, _ = check_proof(text.encode(errors="replace"), keys)
    record = read_record(proof.leaf)
    if record.action != action or record.replay_id != replay_id:
        raise _unfit(f"record {record.seq} is not the {action} of this replay")
    return proof, record


def _check_together(first: Proof, requested: Record, last: Proof, finished: Record) -> None:
    one, other = first.head.checkpoint, last.head.checkpoint
    if one.origin != other.origin:
        raise _unfit("the two records are of different logs")
    if one.size == other.size and one.root != other.root:
        raise _unfit("the two heads are of one size and have different roots: the log was forked")
    if finished.seq <= requested.seq:
        raise _unfit("the replay was finished before it was requested")
    asked, done = requested.source, finished.source
    if asked is None or done is None or asked.exchange_id != done.exchange_id:
        raise _unfit("the two records are about different exchanges")


def _opened(
    values: tuple[Opening, ...], requested: Record, finished: Record | None
) -> dict[str, Any]:
    named = set(_digests(requested)) | set(_digests(finished) if finished is not None else ())
    found: dict[str, Any] = {}
    for one in values:
        if one.digest not in named:
            raise _value_refused(f"{one.digest[:80]} is in neither record")
        try:
            fits = matches_salted_digest(one.digest, one.value, one.salt)
        except ValueRefused as error:
            raise _value_refused(error.message) from None
        if not fits:
            raise _value_refused(f"a value is not the one of which {one.digest} was made")
        found[one.digest] = one.value
    return found


def _digests(record: Record) -> Iterator[str]:
    yield from (record.payload_digest_before, record.payload_digest_after, record.result_digest)
    for change in record.patch:
        yield from (change.before, change.after)


def _proven(
    first: Proof, requested: Record, finished: Record | None, values: dict[str, Any]
) -> Iterator[str]:
    origin = first.head.checkpoint.origin
    yield f"the log {origin} has record {requested.seq}: the replay was requested"
    yield from _contained("when it was requested, the app declared", requested)
    if requested.payload_digest_after in values:
        yield "the payload in this file is the one that was to be replayed"
    if finished is None:
        return
    yield f"the log has record {finished.seq}: it ended, with the outcome {finished.outcome}"
    yield from _contained("the app reported for this replay", finished)
    if finished.result_digest in values:
        yield "the output in this file is the output of the replay"


def _contained(start: str, record: Record) -> Iterator[str]:
    """Yield one line about the treatment of drivers, files and environment variables."""
    told = record.details
    if "drivers" in told:
        scratch = f" except in {told['scratch']}" if "scratch" in told else ""
        yield (
            f"{start}: drivers {told['drivers']}; files {told.get('files', '')}{scratch}; "
            f"environment variables {told.get('environmentVariables', '')}"
        )


def _not_proven(
    requested: Record, finished: Record | None, values: dict[str, Any]
) -> Iterator[str]:
    if requested.payload_digest_after not in values:
        yield "the payload: it is not in this file"
    if finished is None:
        yield "the result: the replay had not ended when this file was created"
    elif not finished.result_digest:
        yield "the output: the replay had none"
    elif finished.result_digest not in values:
        yield "the output: it is not in this file"
    yield "that the app reported truthfully which code it ran"


def _malformed(why: str) -> AuditInvalid:
    return AuditInvalid(f"not the proof of a replay: {why}", reason="replay.malformed")


def _unfit(why: str) -> AuditInvalid:
    return AuditInvalid(
        why, reason="replay.records", hint="do not trust this file; ask the server for it again"
    )


def _value_refused(why: str) -> AuditInvalid:
    return AuditInvalid(
        why, reason="replay.value", hint="do not trust this file; ask the server for it again"
    )
