"""Audit log of each tenant, in the database.

A record is written in the same transaction as the change that it describes, so either both exist or
neither does. Every record is covered by its own signed head. The first record of a log is
``log.opened``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from reenact.audit.bundle import KeySpan
from reenact.audit.keys import Key, Signer
from reenact.audit.log import Log, origin_of, parse_head
from reenact.audit.merkle import NodeAt, prove_consistency, prove_inclusion
from reenact.audit.note import parse_note, rotation_note
from reenact.audit.proof import Proof
from reenact.audit.record import Actor, Envelope, Record, Subject
from reenact.audit.replay_proof import SALT_SIZE, salted_digest
from reenact.format.canonical import canonical, decode, plain
from reenact.server.problems import Problem
from reenact.server.runtime import Principal
from reenact.server.storage import audit
from reenact.server.storage.audit import RecordFilter
from reenact.server.storage.database import Scope

__all__ = [
    "SYSTEM",
    "Auditor",
    "Remembered",
    "actor_of",
    "change_record",
]

SYSTEM: Final = Actor("system", "server")
"""Actor of changes that no user requested."""
_MOST_KEYS: Final = 10_000


class Remembered(msgspec.Struct, frozen=True):
    """Salt and value of a salted digest."""

    salt: bytes
    value: Any


def actor_of(principal: Principal) -> Actor:
    """Return the actor of a record for ``principal``."""
    return Actor(
        principal.type,
        principal.id,
        principal.auth,
        principal.credential,
        principal.ip,
        principal.agent_header,
    )


class Auditor:
    """Writes to and proves from the logs of all tenants of one deployment.

    ``signer`` holds the deployment's audit key, which signs each log under the log's own name;
    ``now`` is in milliseconds, ``secret`` gives random bytes. A log has one writer at a time: the
    transaction that a :class:`Scope` belongs to.
    """

    def __init__(
        self,
        signer: Signer,
        deployment: str,
        now: Callable[[], int],
        secret: Callable[[int], bytes],
    ) -> None:
        self._signer = signer
        self._deployment = deployment
        self._now = now
        self._secret = secret

    def origin(self, tenant: str) -> str:
        """The name of a tenant's log."""
        return origin_of(self._deployment, tenant)

    def key(self, tenant: str) -> Key:
        """Return the key that verifies a tenant's log."""
        return self._signer.named(self.origin(tenant)).key

    async def write(self, scope: Scope, record: Record) -> int:
        """Append ``record`` to the log of the scope's tenant, in the scope's transaction, and give
        its number. Raises :class:`reenact.errors.AuditInvalid` for what cannot be recorded."""
        signer = self._signer.named(self.origin(scope.tenant))
        log, note = await audit.read_signed_end(scope, signer.key.name)
        _check_signer(note, signer.key)
        if not log.size:
            opened = Record(tenant=scope.tenant, actor=SYSTEM, action="log.opened")
            log = await self._append(scope, log, opened, signer)
        log = await self._append(scope, log, record, signer)
        return log.size - 1

    async def _append(self, scope: Scope, log: Log, record: Record, signer: Signer) -> Log:
        added = log.append(record, self._now())
        signed, head = added.log.sign([signer])
        await audit.add_record(scope, added, signed, head.to_text())
        return signed

    async def rotate(self, scope: Scope, new: Signer) -> bool:
        """Hand the log of the scope's tenant over to the key of ``new``: from its record on that
        signs, and no server that has the old one can write to it. False for a log that has no
        records, which begins with the new one."""
        old = self._signer.named(self.origin(scope.tenant))
        log, note = await audit.read_signed_end(scope, old.key.name)
        if not note:
            return False
        _check_signer(note, old.key)
        signer = new.named(old.key.name)
        handed = rotation_note(log.size, old, signer)
        record = Record(tenant=scope.tenant, actor=SYSTEM, action="log.rotated", rotation=handed)
        await self._append(scope, log, record, signer)
        return True

    async def keys(self, scope: Scope) -> list[KeySpan]:
        """Return the keys that verify the log of the scope's tenant, from its first record."""
        rotated = RecordFilter(action="log.rotated")
        changes: list[tuple[int, Key, Key]] = []
        for seq, line in reversed(await audit.find_records(scope, rotated, _MOST_KEYS)):
            note = parse_note(msgspec.json.decode(line, type=Envelope).rotation.encode())
            _, _, before, after = note.text[:-1].split("\n")
            changes.append((seq, Key.from_text(before), Key.from_text(after)))
        first = changes[0][1] if changes else self.key(scope.tenant)
        return [KeySpan(0, first), *(KeySpan(seq + 1, after) for seq, _, after in changes)]

    async def remember(self, scope: Scope, value: Any) -> str:
        """Return the salted digest of ``value`` for a record.

        Salt and value are stored next to the log, and can be erased.
        """
        salt = self._secret(SALT_SIZE)
        digest = salted_digest(value, salt)
        await audit.add_value(scope, digest, salt, canonical(value), self._now())
        return digest

    async def recall(self, scope: Scope, digest: str) -> Remembered | None:
        """Return the value stored by :meth:`remember`; None if it was erased."""
        found = await audit.read_value(scope, digest)
        return None if found is None else Remembered(found[0], plain(decode(found[1])))

    async def prove(self, scope: Scope, seq: int) -> Proof:
        """That the log as it is now has the record ``seq``. Raises :class:`Problem`."""
        line, note = await audit.read_line(scope, seq), await audit.read_head(scope)
        if line is None or note is None:
            raise Problem("not_found", f"record {seq} does not exist")
        head = parse_head(note.encode())
        path = await _with_nodes(scope, lambda node: prove_inclusion(seq, head.size, node))
        return Proof(line, seq, tuple(path), head)

    async def prove_growth(self, scope: Scope, old: int, new: int) -> list[bytes]:
        """Return the proof that the log of ``new`` records begins with the log of ``old`` records."""
        return await _with_nodes(scope, lambda node: prove_consistency(old, new, node))


def _check_signer(note: str, key: Key) -> None:
    """Raise :class:`Problem` for a log that a different key has taken over, because signatures of
    this key could not be verified."""
    if note and all(one.key_id != key.id for one in parse_note(note.encode()).signatures):
        raise Problem(
            "damaged",
            "the audit log is signed with a key that this server does not have",
            hint="copy the folder keys from the server on which the key was changed; if it was not changed, verify the log",
        )


async def _with_nodes(scope: Scope, prove: Callable[[NodeAt], list[bytes]]) -> list[bytes]:
    """Build a proof in two passes: the first collects the nodes, so that one query reads them all."""
    wanted: list[tuple[int, int]] = []

    def note(level: int, position: int) -> bytes:
        wanted.append((level, position))
        return bytes(32)

    prove(note)
    nodes = await audit.read_nodes(scope, wanted)
    missing = [place for place in wanted if place not in nodes]
    if missing:
        raise Problem(
            "damaged",
            f"the audit log has no node {missing[0]}",
            hint="export the log and verify it: reenact audit verify",
        )
    return prove(lambda level, position: nodes[level, position])


def change_record(
    principal: Principal,
    action: str,
    subject: str,
    id: str,
    permission: str,
    *,
    tenant: str = "",
    tier: str = "",
    **details: str,
) -> Record:
    """Return a record of ``action`` by ``principal`` on the ``subject`` with ``id``.

    ``tenant`` defaults to the principal's tenant.
    """
    return Record(
        tenant=tenant or principal.tenant.id,
        actor=actor_of(principal),
        action=action,
        subject=Subject(subject, id),
        permission=permission,
        tier=tier,
        outcome="ok",
        details={name: text for name, text in details.items() if text},
    )
