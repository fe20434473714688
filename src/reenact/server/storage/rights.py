"""Who may change tables, and who may only use them: two roles of PostgreSQL, if one wants to.

A role that owns the tables can give itself every right back. One that does not cannot take a guard
of the audit log away, nor a policy, whatever happens to the server that has its password.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from reenact.errors import UsageError
from reenact.server.storage.audit_guards import GROWING
from reenact.server.storage.guarding import are_guards_due
from reenact.server.storage.migrating import are_steps_due, newest
from reenact.server.storage.tables import METADATA

__all__ = ["check_rights", "let_serve"]

_MAY_DEFINE: Final = text(
    "SELECT has_schema_privilege(current_schema(), 'CREATE') AND NOT EXISTS ("
    "SELECT 1 FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace "
    "AND relname = ANY(:names) AND NOT pg_has_role(relowner, 'USAGE'))"
)
_MAY_USE: Final = text(
    "SELECT has_table_privilege(:name, 'SELECT') AND has_table_privilege(:name, 'INSERT')"
)
_ROLE: Final = text("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = :role")
_OWNS: Final = text(
    "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relkind = 'r' AND relname = ANY(:names) "
    "AND relnamespace = current_schema()::regnamespace AND pg_has_role(:role, relowner, 'USAGE'))"
)


def check_rights(connection: Connection) -> None:
    """Raises :class:`UsageError` where tables have to be made, changed or used, and this role may not.
    For :meth:`Platform.define`, before anything is tried."""
    if connection.scalar(_MAY_DEFINE, {"names": sorted(METADATA.tables)}):
        return
    if are_steps_due(connection) or are_guards_due(connection):
        what = f"be brought up to date (to version {newest()}) by"
    elif not all(connection.scalar(_MAY_USE, {"name": name}) for name in METADATA.tables):
        what = "be used by"
    else:
        return
    role = connection.scalar(text("SELECT current_user"))
    raise UsageError(
        f"the tables of the database cannot {what} the role {role}, who may not do that",
        hint=f"as the role that owns them: reenact serve --migrate-only --role {role} --database …",
    )


def let_serve(connection: Connection, role: str) -> None:
    """Give ``role`` what a server needs, and no more: it adds to the audit log, and changes no
    table. Raises :class:`UsageError` for a role that would not be bound by that."""
    if connection.dialect.name != "postgresql":
        raise UsageError(
            "the database in a file has no roles", hint="leave --role out, or name --database"
        )
    _check(connection, role)
    quote = connection.dialect.identifier_preparer.quote
    schema = quote(str(connection.scalar(text("SELECT current_schema()"))))
    connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA {schema} TO {quote(role)}")
    rights = dict.fromkeys(METADATA.tables, "SELECT, INSERT, UPDATE, DELETE")
    rights |= dict.fromkeys(GROWING, "SELECT, INSERT") | {"alembic_version": "SELECT"}
    for name, given in rights.items():
        connection.exec_driver_sql(f"REVOKE ALL ON {name} FROM {quote(role)}")
        connection.exec_driver_sql(f"GRANT {given} ON {name} TO {quote(role)}")


def _check(connection: Connection, role: str) -> None:
    found = connection.execute(_ROLE, {"role": role}).one_or_none()
    if found is None:
        raise UsageError(f"the database has no role {role}", hint=f"CREATE ROLE {role} LOGIN")
    if found[0]:
        raise UsageError(
            f"{role} may see and change everything, whatever the tables say",
            hint="name a role that is no superuser, and has no BYPASSRLS",
        )
    if connection.scalar(_OWNS, {"role": role, "names": sorted(METADATA.tables)}):
        raise UsageError(
            f"the tables are {role}'s own, who can give itself every right",
            hint="let another role own them, and run this as that one",
        )
