"""What holds whatever a statement says: tenants see their own rows, and the audit log only grows.

Looked at whenever a server starts, and put back where it was removed: that hides nothing, since what
was done without it shows when the log is verified. What is there already is left alone, because
changing a table waits for everybody who uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection, Table, text

from reenact.server.storage.audit_guards import GROWING, POSTGRES_GUARDS, SQLITE_GUARDS
from reenact.server.storage.database import EVERYBODY
from reenact.server.storage.tables import METADATA, TENANTS

__all__ = ["are_guards_due", "guard"]

_POLICY: Final = "of_tenant"


def guard(connection: Connection) -> None:
    """For :meth:`Platform.define`."""
    if connection.dialect.name == "sqlite":
        for statement in SQLITE_GUARDS:
            connection.exec_driver_sql(statement)
        return
    for statement in (*_missing_policies(connection), *_missing_guards(connection)):
        connection.exec_driver_sql(statement)


def are_guards_due(connection: Connection) -> bool:
    """Would :func:`guard` do something, on PostgreSQL?"""
    return any(True for _ in (*_missing_policies(connection), *_missing_guards(connection)))


def _owner(table: Table) -> str:
    """The column that says whose a row is; empty for tables that are nobody's."""
    if table is TENANTS:
        return "id"
    return "tenant" if "tenant" in table.c else ""


def _missing_policies(connection: Connection) -> Iterator[str]:
    query = text(
        "SELECT c.relname FROM pg_class c JOIN pg_policy p ON p.polrelid = c.oid "
        "WHERE p.polname = :policy AND c.relnamespace = current_schema()::regnamespace "
        "AND c.relrowsecurity AND c.relforcerowsecurity"
    )
    there = set(connection.scalars(query, {"policy": _POLICY}))
    for table in METADATA.sorted_tables:
        if _owner(table) and table.name not in there:
            yield from _policy(table.name, _owner(table))


def _policy(table: str, owner: str) -> Iterator[str]:
    """The setting is read once for a statement, not once for each row."""
    setting = "(SELECT current_setting('app.tenant', true))"
    seen = f"{owner} = {setting} OR {setting} = '{EVERYBODY}'"
    yield f"DROP POLICY IF EXISTS {_POLICY} ON {table}"
    yield f"CREATE POLICY {_POLICY} ON {table} USING ({seen}) WITH CHECK ({seen})"
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"


def _missing_guards(connection: Connection) -> Iterator[str]:
    query = text(
        "SELECT count(*) FROM pg_trigger WHERE tgrelid = CAST(:name AS regclass) "
        "AND NOT tgisinternal AND tgenabled <> 'D'"
    )
    may = text("SELECT has_table_privilege(:name, 'UPDATE, DELETE, TRUNCATE')")
    for name in GROWING:
        whole = connection.scalar(query, {"name": name}) == _TRIGGERS
        if not whole or connection.scalar(may, {"name": name}):
            for trigger in ("insert", "no_change", "no_truncate"):
                yield f"DROP TRIGGER IF EXISTS {name}_{trigger} ON {name}"
            yield from POSTGRES_GUARDS[name]


_TRIGGERS: Final = 3
