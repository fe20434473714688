"""The guards that let the audit log only grow.

They are for accidents and for whoever comes through the server. Somebody with the file, or with the
role that owns the tables, can remove them: that is what the signed heads are for.

Numbers are dense, nodes are new, heads grow with the records. SQLite needs the guards of inserting
also because a replacing insert would get around that against deleting. On PostgreSQL the rights to
change are taken away as well.
"""

from __future__ import annotations

from typing import Final

__all__ = ["GROWING", "POSTGRES_FUNCTIONS", "POSTGRES_GUARDS", "POSTGRES_TRIGGERS", "SQLITE_GUARDS"]

GROWING: Final = ("audit_records", "audit_nodes", "audit_heads")
"""The tables that only grow."""

_WORDS: Final = "the audit log only grows"
_NEXT: Final = "(SELECT coalesce(max(seq), -1) + 1 FROM audit_records WHERE tenant = NEW.tenant)"
_LATER_HEAD: Final = (
    "EXISTS (SELECT 1 FROM audit_heads WHERE tenant = NEW.tenant AND size >= NEW.size)"
)
_SAME_NODE: Final = (
    "EXISTS (SELECT 1 FROM audit_nodes WHERE tenant = NEW.tenant AND level = NEW.level "
    "AND position = NEW.position)"
)
_REFUSED: Final = {
    "audit_records": f"NEW.seq IS DISTINCT FROM {_NEXT}",
    "audit_nodes": _SAME_NODE,
    "audit_heads": f"NEW.size IS DISTINCT FROM {_NEXT} OR {_LATER_HEAD}",
}
"""What must not be inserted."""


def _sqlite(name: str, table: str, event: str, when: str = "") -> str:
    condition = f" WHEN {when.replace('IS DISTINCT FROM', 'IS NOT')}" if when else ""
    return (
        f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {event} ON {table}{condition} "
        f"BEGIN SELECT RAISE(ABORT, '{_WORDS}'); END"
    )


SQLITE_GUARDS: Final[tuple[str, ...]] = tuple(
    statement
    for table in GROWING
    for statement in (
        _sqlite(f"{table}_no_update", table, "UPDATE"),
        _sqlite(f"{table}_no_delete", table, "DELETE"),
        _sqlite(f"{table}_insert", table, "INSERT", _REFUSED[table]),
    )
)


POSTGRES_TRIGGERS: Final = ("insert", "no_change", "no_truncate")
"""Behind the name of the table and an underscore."""


def _bodies(table: str) -> dict[str, str]:
    refuse = f"RAISE EXCEPTION '{_WORDS}' USING ERRCODE = 'integrity_constraint_violation';"
    return {
        f"{table}_insert": f" BEGIN IF {_REFUSED[table]} THEN {refuse} END IF; RETURN NEW; END ",
        f"{table}_kept": f" BEGIN {refuse} END ",
    }


POSTGRES_FUNCTIONS: Final[dict[str, str]] = {
    name: body for table in GROWING for name, body in _bodies(table).items()
}
"""The bodies of the functions that the triggers execute."""


def _postgres(table: str) -> tuple[str, ...]:
    functions = (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql "
        f"AS $body${body}$body$"
        for name, body in _bodies(table).items()
    )
    return (
        *functions,
        f"CREATE TRIGGER {table}_insert BEFORE INSERT ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_insert()",
        f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION {table}_kept()",
        f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_kept()",
        f"REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM PUBLIC, CURRENT_USER",
    )


POSTGRES_GUARDS: Final[dict[str, tuple[str, ...]]] = {table: _postgres(table) for table in GROWING}
"""By table. The triggers must not be there yet."""
