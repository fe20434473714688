"""Schema of the database: migration to this version, and the guards and policies of its tables.

The steps are in ``migrations/versions``, one file each, numbered without gaps. A released step is
never changed. All missing steps run in one exclusive transaction, so two servers that start
together migrate once.

Triggers and policies are the guards: tenants see only their own rows, and the audit log only grows.

They are checked when a server starts. A missing policy is created again. A missing guard of the
audit log stops the start, because it was removed on purpose and the log may have been changed;
``reenact serve --migrate-only`` creates it again. Existing guards are left alone, because changing
a table waits for all of its users.

The guards protect against accidents and against access through the server. The owner of the file or
of the tables can remove them; the signed heads reveal that. SQLite also needs guards on INSERT,
because REPLACE would bypass the guard on DELETE. On PostgreSQL the rights to change are revoked as
well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Table, inspect, text

from reenact.errors import UsageError
from reenact.server.storage.database import EVERYBODY
from reenact.server.storage.tables import METADATA, TENANTS

__all__ = [
    "GROWING",
    "POSTGRES_FUNCTIONS",
    "POSTGRES_GUARDS",
    "POSTGRES_TRIGGERS",
    "SQLITE_GUARDS",
    "are_guards_due",
    "are_steps_due",
    "check_audit_guards",
    "guard",
    "migrate",
    "newest",
]

_FOLDER: Final = Path(__file__).with_name("migrations")


@cache
def newest() -> int:
    """The number of the last step."""
    return max(int(path.stem[1:5]) for path in _FOLDER.glob("versions/r[0-9]*.py"))


def migrate(connection: Connection) -> None:
    """Run the steps that are missing; for :meth:`Platform.define`. Raises :class:`UsageError` for a
    database of a later version."""
    target = newest()
    if _known_version(connection) >= target:
        return
    command.upgrade(_config(connection), f"{target:04}")
    connection.execute(text("UPDATE deployment SET schema_version = :now"), {"now": target})


def are_steps_due(connection: Connection) -> bool:
    """Would :func:`migrate` do something? Raises what that raises."""
    return _known_version(connection) < newest()


def _known_version(connection: Connection) -> int:
    found = _version(connection)
    if found > newest():
        raise UsageError(
            f"the database has schema version {found}, and this is version {newest()}",
            hint="use the reenact that made it, or a newer one",
        )
    return found


def _version(connection: Connection) -> int:
    """0 for a database in which there is nothing of ours."""
    if not inspect(connection).has_table("deployment"):
        return 0
    found = connection.scalar(text("SELECT schema_version FROM deployment"))
    if found is None and not connection.scalar(text("SELECT count(*) FROM tenants")):
        found = _prepared_version(connection)
    if found is None:
        raise UsageError(
            "the database has our tables, and nothing in them",
            hint="name an empty one, or restore this one from a copy",
        )
    return int(found)


def _prepared_version(connection: Connection) -> str | None:
    """Return the version of tables that were created before the first server start."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


_POLICY: Final = "of_tenant"
_MAY_CHANGE: Final = text("SELECT has_table_privilege(:name, 'UPDATE, DELETE, TRUNCATE')")


def guard(connection: Connection) -> None:
    """For :meth:`Platform.define`."""
    if connection.dialect.name == "sqlite":
        missing = set(_sqlite_missing(connection, exact=True))
        for statement in SQLITE_GUARDS:
            name = statement.replace(" IF NOT EXISTS", "", 1).split()[2]
            if name in missing:
                connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
                connection.exec_driver_sql(statement)
        return
    for statement in (*_missing_policies(connection), *_missing_guards(connection)):
        connection.exec_driver_sql(statement)


def are_guards_due(connection: Connection) -> bool:
    """Would :func:`guard` do something, on PostgreSQL?"""
    return any(True for _ in (*_missing_policies(connection), *_missing_guards(connection)))


def check_audit_guards(connection: Connection) -> None:
    """Raise :class:`UsageError` when a guard of the audit log is missing, disabled or changed.

    For :meth:`Platform.define`, before anything is changed. A database in which no server has worked
    yet has no guards to miss.
    """
    if not inspect(connection).has_table("deployment"):
        return
    if connection.scalar(text("SELECT count(*) FROM deployment")) == 0:
        return
    # The statements of a later version can differ; its steps come first.
    exact = not are_steps_due(connection)
    sqlite = connection.dialect.name == "sqlite"
    missing = sorted((_sqlite_missing if sqlite else _postgres_missing)(connection, exact))
    if missing:
        raise UsageError(
            f"the database has lost guards of its audit log: {', '.join(missing)}",
            hint="find out who removed them and compare the log with an earlier head (reenact audit verify); "
            "then put them back: reenact serve --migrate-only, with the same --data and --database",
        )


def _sqlite_missing(connection: Connection, exact: bool) -> Iterator[str]:
    query = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    there = {row.name: row.sql for row in connection.execute(query)}
    for statement in SQLITE_GUARDS:
        # SQLite stores the statement without IF NOT EXISTS.
        wanted = statement.replace(" IF NOT EXISTS", "", 1)
        name = wanted.split()[2]
        if name not in there or (exact and there[name] != wanted):
            yield name


def _postgres_missing(connection: Connection, exact: bool) -> Iterator[str]:
    triggers = text(
        "SELECT tgname FROM pg_trigger WHERE tgrelid = CAST(:name AS regclass) "
        "AND NOT tgisinternal AND tgenabled IN ('O', 'A')"
    )
    for name in GROWING:
        there = set(connection.scalars(triggers, {"name": name}))
        yield from {f"{name}_{one}" for one in POSTGRES_TRIGGERS} - there
        if connection.scalar(_MAY_CHANGE, {"name": name}):
            yield f"the right to change {name} was given back"
    functions = text(
        "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace"
    )
    bodies = {row.proname: row.prosrc for row in connection.execute(functions)}
    for name, body in POSTGRES_FUNCTIONS.items():
        if exact and bodies.get(name) != body:
            yield f"{name}()"


def _owner(table: Table) -> str:
    """Return the tenant column of a table; empty for tables without a tenant."""
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
    missing = " ".join(_postgres_missing(connection, exact=True))
    for name in GROWING:
        if name in missing:
            for trigger in POSTGRES_TRIGGERS:
                yield f"DROP TRIGGER IF EXISTS {name}_{trigger} ON {name}"
            yield from POSTGRES_GUARDS[name]


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
"""Conditions of refused inserts."""


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
