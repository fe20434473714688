"""Creation and verification of the database, and its two optional PostgreSQL roles.

A role that owns the tables can grant itself every right again. A role that only uses them cannot remove a
guard or a policy, even if the password of the server leaks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from sqlalchemy import Connection, insert, select, text, update

from reenact.errors import UsageError
from reenact.server.storage.database import Database, Platform
from reenact.server.storage.schema import (
    GROWING,
    are_guards_due,
    are_steps_due,
    check_audit_guards,
    guard,
    migrate,
    newest,
)
from reenact.server.storage.tables import DEPLOYMENT, METADATA, TENANTS

__all__ = [
    "FIRST_TENANT",
    "DeploymentFacts",
    "Keys",
    "bind_keys",
    "change_audit_key",
    "check_rights",
    "let_serve",
    "prepare_tables",
    "renew_setup",
    "settle",
]

FIRST_TENANT: Final = "default"
_NO_LINK: Final = "no link yet"
"""The hash of nothing."""


class Keys(msgspec.Struct, frozen=True):
    """Public keys of a deployment, as text."""

    audit_key: str
    commands_key: str


class DeploymentFacts(msgspec.Struct, frozen=True):
    """Facts about the deployment. ``waiting`` means that the set-up link was not used yet."""

    name: str
    waiting: bool
    keys: Keys


async def settle(
    database: Database, name: str, now: int, prepare: Callable[[], Keys]
) -> DeploymentFacts:
    """Migrate the database, or create it with the first tenant, in one exclusive transaction.

    ``prepare`` is called for a new deployment and returns its keys. Raises :class:`UsageError` for
    a database of a later version, and if the audit log has lost a guard.
    """
    async with database.platform(write=True) as platform:
        if database.dialect == "postgresql":
            await _check_role(platform)
            await platform.define(check_rights)
        await platform.define(check_audit_guards)
        await platform.define(migrate)
        await platform.define(guard)
        if await platform.one(select(DEPLOYMENT.c.id)) is None:
            await _set_up(platform, name, now, prepare())
        row = await platform.one(select(DEPLOYMENT))
        if row is None:
            raise LookupError("the deployment was not written")
        return DeploymentFacts(
            row.name, bool(row.setup_hash), Keys(row.audit_key, row.commands_key)
        )


async def prepare_tables(database: Database, role: str) -> None:
    """Create or migrate the tables, and let ``role`` use them.

    The first server adds the deployment. Raises :class:`UsageError`.
    """
    async with database.platform(write=True) as platform:
        if database.dialect == "postgresql":
            await platform.define(check_rights)
        await platform.define(migrate)
        await platform.define(guard)
        if role:
            await platform.define(lambda connection: let_serve(connection, role))


async def _check_role(platform: Platform) -> None:
    query = "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    row = await platform.one(text(query))
    if row is None or row[0]:
        raise UsageError(
            "this database role bypasses the row-level security of the tables",
            hint="CREATE ROLE reenact LOGIN; CREATE DATABASE reenact OWNER reenact; and use that role",
        )


async def _set_up(platform: Platform, name: str, now: int, keys: Keys) -> None:
    whole = {"id": 1, "name": name, "schema_version": newest(), "created_at": now}
    row = {**whole, "setup_hash": _NO_LINK, **msgspec.structs.asdict(keys)}
    await platform.run(insert(DEPLOYMENT).values(**row))
    first = {"id": FIRST_TENANT, "name": FIRST_TENANT, "tier": "business", "dedicated": 1}
    await platform.run(insert(TENANTS).values(**first, created_at=now))


async def bind_keys(database: Database, keys: Keys) -> None:
    """From now on the deployment signs with these, on every server. For one that was made when it
    did not know its keys; of another nothing changes."""
    async with database.platform(write=True) as platform:
        wanted = update(DEPLOYMENT).where(DEPLOYMENT.c.audit_key == "")
        await platform.run(wanted.values(**msgspec.structs.asdict(keys)))


async def change_audit_key(platform: Platform, key: str) -> None:
    """From now on the deployment signs its logs with this one."""
    await platform.run(update(DEPLOYMENT).values(audit_key=key))


async def renew_setup(database: Database, kept: str) -> None:
    """Another one-time link: the one before is void."""
    async with database.platform(write=True) as platform:
        await platform.run(update(DEPLOYMENT).values(setup_hash=kept))


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
        f"the tables of the database cannot {what} the role {role}, which does not have the permission",
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
            f"{role} bypasses the row-level security of the tables",
            hint="use a role that is not a superuser and does not have BYPASSRLS",
        )
    if connection.scalar(_OWNS, {"role": role, "names": sorted(METADATA.tables)}):
        raise UsageError(
            f"the tables are {role}'s own, who can give itself every right",
            hint="let another role own them, and run this as that one",
        )
