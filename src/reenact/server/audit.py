"""The audit log of each tenant, in the database: a record is written where the thing it is about is
written, in the same transaction, or neither is.

Each record is signed for by a head of its own. The first record of a log says that it was opened.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from reenact.audit.checkpoint import origin_of, parse_head
from reenact.audit.keys import Key, Signer
from reenact.audit.log import Log
from reenact.audit.merkle import NodeAt
from reenact.audit.proof import Proof
from reenact.audit.proving import prove_consistency, prove_inclusion
from reenact.audit.record import Actor, Record
from reenact.audit.salted import SALT_SIZE, salted
from reenact.format.canonical import canonical, decode, plain
from reenact.server.ports import Principal
from reenact.server.problems import Problem
from reenact.server.storage import audit_rows
from reenact.server.storage.database import Scope

__all__ = ["SYSTEM", "Auditor", "Remembered", "actor_of"]

SYSTEM: Final = Actor("system", "server")
"""Who did what nobody asked for."""


class Remembered(msgspec.Struct, frozen=True):
    """What a salted digest was made of."""

    salt: bytes
    value: Any


def actor_of(principal: Principal) -> Actor:
    """Somebody who asks, as records name them."""
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
        """What verifies a tenant's log."""
        return self._signer.named(self.origin(tenant)).key

    async def write(self, scope: Scope, record: Record) -> int:
        """Append ``record`` to the log of the scope's tenant, in the scope's transaction, and give
        its number. Raises :class:`reenact.errors.AuditInvalid` for what cannot be recorded."""
        log = await audit_rows.read_end(scope, self.origin(scope.tenant))
        if not log.size:
            opened = Record(tenant=scope.tenant, actor=SYSTEM, action="log.opened")
            log = await self._append(scope, log, opened)
        log = await self._append(scope, log, record)
        return log.size - 1

    async def _append(self, scope: Scope, log: Log, record: Record) -> Log:
        added = log.append(record, self._now())
        signed, head = added.log.sign([self._signer.named(log.origin)])
        await audit_rows.add_record(scope, added, signed, head.to_text())
        return signed

    async def remember(self, scope: Scope, value: Any) -> str:
        """The salted digest of ``value``, for a record. Salt and value are kept beside the log, and
        can be erased there."""
        salt = self._secret(SALT_SIZE)
        digest = salted(value, salt)
        await audit_rows.add_value(scope, digest, salt, canonical(value), self._now())
        return digest

    async def recall(self, scope: Scope, digest: str) -> Remembered | None:
        """What :meth:`remember` kept; None when it was erased."""
        found = await audit_rows.read_value(scope, digest)
        return None if found is None else Remembered(found[0], plain(decode(found[1])))

    async def prove(self, scope: Scope, seq: int) -> Proof:
        """That the log as it is now has the record ``seq``. Raises :class:`Problem`."""
        line, note = await audit_rows.read_line(scope, seq), await audit_rows.read_head(scope)
        if line is None or note is None:
            raise Problem("not_found", f"there is no record {seq}")
        head = parse_head(note.encode())
        path = await _with_nodes(scope, lambda node: prove_inclusion(seq, head.size, node))
        return Proof(line, seq, tuple(path), head)

    async def prove_growth(self, scope: Scope, old: int, new: int) -> list[bytes]:
        """That the log of ``new`` records begins with that of ``old`` records."""
        return await _with_nodes(scope, lambda node: prove_consistency(old, new, node))


async def _with_nodes(scope: Scope, prove: Callable[[NodeAt], list[bytes]]) -> list[bytes]:
    """A proof asks for its nodes one by one; here it first says which, then gets them at once."""
    wanted: list[tuple[int, int]] = []

    def note(level: int, position: int) -> bytes:
        wanted.append((level, position))
        return bytes(32)

    prove(note)
    nodes = await audit_rows.read_nodes(scope, wanted)
    missing = [place for place in wanted if place not in nodes]
    if missing:
        raise Problem(
            "damaged",
            f"the audit log has no node {missing[0]}",
            hint="export the log and verify it: reenact audit verify",
        )
    return prove(lambda level, position: nodes[level, position])
