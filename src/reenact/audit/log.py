"""A log that grows: what has to be stored in order to append to it, and what each step adds.

Pure: a server reads a :class:`Log` in a transaction, appends, and stores what comes out in the same
transaction. One writer at a time per log; the server sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reenact.audit.checkpoint import Checkpoint, Head, sign_head, tenant_of
from reenact.audit.keys import Signer
from reenact.audit.merkle import Frontier, Node, hash_leaf
from reenact.audit.record import Record, encode_record
from reenact.errors import AuditInvalid

__all__ = ["Appended", "Log"]


class Log(msgspec.Struct, frozen=True):
    """The end of a tenant's log: O(log n) bytes for any length.

    ``last_at`` is the time of the last record, ``head_size`` the size of the last signed head.
    """

    origin: str
    frontier: Frontier = Frontier()
    last_at: int = 0
    head_size: int = 0

    @property
    def size(self) -> int:
        """Number of records, which is the ``seq`` of the next one."""
        return self.frontier.size

    def append(self, record: Record, at: int) -> Appended:
        """Number and stamp ``record``, and add it.

        ``at`` is the time in milliseconds. A clock that was set back does not show: no record is
        older than the one before it. Raises :class:`AuditInvalid` for what cannot be recorded.
        """
        if record.tenant != tenant_of(self.origin):
            raise AuditInvalid(
                f"a record of tenant {record.tenant} does not belong into {self.origin}",
                reason="record.foreign",
            )
        stamped = msgspec.structs.replace(
            record, seq=self.size, at=max(at, self.last_at), prev_head_size=self.head_size
        )
        line = encode_record(stamped)
        frontier, nodes = self.frontier.append(hash_leaf(line))
        log = Log(self.origin, frontier, stamped.at, self.head_size)
        return Appended(log, stamped, line, nodes)

    def sign(self, signers: Sequence[Signer]) -> tuple[Log, Head]:
        """Return the log with a signed head of its current size, and the head."""
        head = sign_head(Checkpoint(self.origin, self.size, self.frontier.root()), signers)
        return Log(self.origin, self.frontier, self.last_at, self.size), head


class Appended(msgspec.Struct, frozen=True):
    """Data to store after an append: the log's new end, the record's ``line``, and the completed
    nodes of the tree, starting with the record's leaf hash.
    """

    log: Log
    record: Record
    line: bytes
    nodes: tuple[Node, ...]
