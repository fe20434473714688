"""The tables of the audit log, and the guards that let them only grow.

Three tables per log, none of them ever changed: the records as the bytes that were hashed, the whole
nodes of the tree, and the signed heads. The columns beside ``line`` are copies, for looking things
up. What a digest in a record was made of is in a fourth table, which can be erased.

The guards are for accidents and for whoever comes through the server. Somebody with the file can
remove them: that is what the signed heads are for.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, LargeBinary, Text

from reenact.server.storage.tables import Whole, of_tenant

__all__ = ["AUDIT_HEADS", "AUDIT_NODES", "AUDIT_RECORDS", "AUDIT_VALUES", "GUARDS"]

AUDIT_RECORDS: Final = of_tenant(
    "audit_records",
    Column("seq", Whole, nullable=False),
    Column("at", Whole, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("environment", Text, nullable=False),
    Column("exchange_id", Text, nullable=False),
    Column("replay_id", Text, nullable=False),
    Column("outcome", Text, nullable=False),
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
    Column("note", Text, nullable=False),
    key=("size",),
)
"""``frontier`` and ``last_at`` are what the next record needs: the newest head is the log's end."""

AUDIT_VALUES: Final = of_tenant(
    "audit_values",
    Column("digest", Text, nullable=False),
    Column("salt", LargeBinary, nullable=False),
    Column("value", LargeBinary, nullable=False),
    Column("at", Whole, nullable=False),
    key=("digest",),
)
"""Salt and value (canonical JSON) of a salted digest. They may be erased; the digest stays."""


def _guard(name: str, table: str, event: str, when: str = "") -> str:
    condition = f" WHEN {when}" if when else ""
    return (
        f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {event} ON {table}{condition} "
        f"BEGIN SELECT RAISE(ABORT, 'the audit log only grows'); END"
    )


def _guards(table: str, inserting: str) -> tuple[str, ...]:
    return (
        _guard(f"{table}_no_update", table, "UPDATE"),
        _guard(f"{table}_no_delete", table, "DELETE"),
        _guard(f"{table}_insert", table, "INSERT", inserting),
    )


GUARDS: Final[tuple[str, ...]] = (
    *_guards(
        "audit_records",
        "NEW.seq IS NOT (SELECT coalesce(max(seq), -1) + 1 FROM audit_records WHERE tenant = NEW.tenant)",
    ),
    *_guards(
        "audit_nodes",
        "EXISTS (SELECT 1 FROM audit_nodes WHERE tenant = NEW.tenant AND level = NEW.level "
        "AND position = NEW.position)",
    ),
    *_guards(
        "audit_heads",
        "NEW.size IS NOT (SELECT coalesce(max(seq), -1) + 1 FROM audit_records WHERE tenant = NEW.tenant) "
        "OR EXISTS (SELECT 1 FROM audit_heads WHERE tenant = NEW.tenant AND size >= NEW.size)",
    ),
)
"""For SQLite. A replacing insert would get around the guard against deleting, and so inserting has
one of its own: numbers are dense, nodes are new, heads grow with the records."""
