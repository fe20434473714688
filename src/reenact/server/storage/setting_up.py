"""Making the database, or looking whether it is ours."""

from __future__ import annotations

from typing import Final

import msgspec
from sqlalchemy import Connection, insert, inspect, select, update

from reenact.errors import UsageError
from reenact.server.storage import batch_tables, exchange_tables, retention_tables
from reenact.server.storage.audit_tables import GUARDS
from reenact.server.storage.database import Database, Platform
from reenact.server.storage.tables import DEPLOYMENT, METADATA, TENANTS

__all__ = [
    "FIRST_TENANT",
    "SCHEMA_VERSION",
    "DeploymentFacts",
    "is_empty",
    "read_deployment",
    "renew_setup",
    "set_up",
]

SCHEMA_VERSION: Final = 1
FIRST_TENANT: Final = "default"
_NO_LINK: Final = "no link yet"
"""The hash of nothing."""
_ROOMS: Final = (exchange_tables, batch_tables, retention_tables)
"""Imported for the tables that they define."""


class DeploymentFacts(msgspec.Struct, frozen=True):
    """The one row about the whole. ``waiting`` says that nobody has used the set-up link."""

    name: str
    waiting: bool


def _has_tables(connection: Connection) -> bool:
    return inspect(connection).has_table(DEPLOYMENT.name)


async def is_empty(database: Database) -> bool:
    """Is there nothing of ours in it yet?"""
    async with database.platform() as platform:
        return not await platform.define(_has_tables)


async def set_up(database: Database, name: str, now: int) -> None:
    """Make the tables and the first tenant, in one transaction."""
    async with database.platform(write=True) as platform:
        await platform.define(METADATA.create_all)
        await _guard(platform)
        await platform.run(
            insert(DEPLOYMENT).values(
                id=1, name=name, schema_version=SCHEMA_VERSION, created_at=now, setup_hash=_NO_LINK
            )
        )
        await platform.run(
            insert(TENANTS).values(
                id=FIRST_TENANT,
                name=FIRST_TENANT,
                tier="business",
                dedicated=1,
                created_at=now,
            )
        )


async def read_deployment(database: Database) -> DeploymentFacts:
    """What is there. Raises :class:`UsageError` for a database of a later version.

    The guards of the audit log are put back if they were removed: that hides nothing, since what
    was done without them shows when the log is verified."""
    async with database.platform(write=True) as platform:
        row = await platform.one(select(DEPLOYMENT))
        if row is None or row.schema_version != SCHEMA_VERSION:
            found = "no" if row is None else row.schema_version
            raise UsageError(
                f"the database has schema version {found}, and this is version {SCHEMA_VERSION}",
                hint="use the reenact that made it, or a newer one",
            )
        await _guard(platform)
        return DeploymentFacts(row.name, bool(row.setup_hash))


async def renew_setup(database: Database, kept: str) -> None:
    """Another one-time link: the one before is void."""
    async with database.platform(write=True) as platform:
        await platform.run(update(DEPLOYMENT).values(setup_hash=kept))


async def _guard(platform: Platform) -> None:
    def make(connection: Connection) -> None:
        if connection.dialect.name == "sqlite":
            for statement in GUARDS:
                connection.exec_driver_sql(statement)

    await platform.define(make)
