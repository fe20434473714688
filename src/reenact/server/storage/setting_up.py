"""Making the database, or looking whether it is ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from sqlalchemy import insert, select, text, update

from reenact.errors import UsageError
from reenact.server.storage import (
    audit_tables,
    batch_tables,
    exchange_tables,
    oidc_tables,
    retention_tables,
    telemetry_tables,
)
from reenact.server.storage.database import Database, Platform
from reenact.server.storage.guarding import check_audit_guards, guard
from reenact.server.storage.migrating import migrate, newest
from reenact.server.storage.rights import check_rights, let_serve
from reenact.server.storage.tables import DEPLOYMENT, TENANTS

__all__ = [
    "FIRST_TENANT",
    "DeploymentFacts",
    "Keys",
    "bind_keys",
    "change_audit_key",
    "prepare_tables",
    "renew_setup",
    "settle",
]

FIRST_TENANT: Final = "default"
_NO_LINK: Final = "no link yet"
"""The hash of nothing."""
_ROOMS: Final = (
    audit_tables,
    batch_tables,
    exchange_tables,
    oidc_tables,
    retention_tables,
    telemetry_tables,
)
"""Imported for the tables that they define. What makes them is a step of ``migrations``; a test
compares the two."""


class Keys(msgspec.Struct, frozen=True):
    """What verifies that which a deployment signs, as text."""

    audit_key: str
    commands_key: str


class DeploymentFacts(msgspec.Struct, frozen=True):
    """The one row about the whole. ``waiting`` says that nobody has used the set-up link."""

    name: str
    waiting: bool
    keys: Keys


async def settle(
    database: Database, name: str, now: int, prepare: Callable[[], Keys]
) -> DeploymentFacts:
    """What is there, brought up to date; or made, with the first tenant, when there is nothing.
    ``prepare`` is called for that, and gives the keys. One transaction, and nobody else in it. Raises
    :class:`UsageError` for a database of a later version, and for one whose audit log has lost a guard."""
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
    """Make the tables, or bring them up to date, and let ``role``, if one is named, serve with
    them. What only a server can say of a deployment is left to the first one. Raises
    :class:`UsageError`."""
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
            "this role of the database may see and change everything, whatever the tables say",
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
