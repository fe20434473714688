"""The tables of the audit log.

Three tables per log, none of them ever changed: the records as the bytes that were hashed, the whole
nodes of the tree, and the signed heads. The columns beside ``line`` are copies, for looking things
up. What a digest in a record was made of is in a fourth table, which can be erased.

That the three only grow is held by ``audit_guards``.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, LargeBinary

from reenact.server.storage.column_types import Whole, Words
from reenact.server.storage.tables import of_tenant

__all__ = ["AUDIT_HEADS", "AUDIT_NODES", "AUDIT_RECORDS", "AUDIT_VALUES"]

AUDIT_RECORDS: Final = of_tenant(
    "audit_records",
    Column("seq", Whole, nullable=False),
    Column("at", Whole, nullable=False),
    Column("action", Words, nullable=False),
    Column("actor", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("exchange_id", Words, nullable=False),
    Column("replay_id", Words, nullable=False),
    Column("outcome", Words, nullable=False),
    Column("line", LargeBinary, nullable=False),
    key=("seq",),
    extra=(
        Index("audit_by_action", "tenant", "action", "seq"),
        Index("audit_by_actor", "tenant", "actor", "seq"),
        Index("audit_by_exchange", "tenant", "exchange_id", "seq"),
        Index("audit_by_replay", "tenant", "replay_id", "seq"),
    ),
)

AUDIT_NODES: Final = of_tenant(
    "audit_nodes",
    Column("level", Whole, nullable=False),
    Column("position", Whole, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    key=("level", "position"),
)

AUDIT_HEADS: Final = of_tenant(
    "audit_heads",
    Column("size", Whole, nullable=False),
    Column("last_at", Whole, nullable=False),
    Column("frontier", LargeBinary, nullable=False),
    Column("note", Words, nullable=False),
    key=("size",),
)
"""``frontier`` and ``last_at`` are what the next record needs: the newest head is the log's end."""

AUDIT_VALUES: Final = of_tenant(
    "audit_values",
    Column("digest", Words, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("at", Whole, nullable=False),
    key=("digest",),
)
"""Salt and value (canonical JSON) of a salted digest. They may be erased; the digest stays."""
