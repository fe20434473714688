"""Tenants, for platform administrators, and the environments and retention of one's own tenant."""

from __future__ import annotations

import re
from typing import Annotated, Final

import msgspec

from reenact.server.auth.permissions import EnvironmentKind, Grant, Tier
from reenact.server.context import MOST_ITEMS, Caller
from reenact.server.exchanges.service import places_of
from reenact.server.people import accounts
from reenact.server.people.schema import Invitation
from reenact.server.problems import Problem
from reenact.server.runtime import TenantFacts
from reenact.server.storage import people, platform
from reenact.server.storage.agents import agent_places
from reenact.server.storage.database import Platform, Scope
from reenact.server.storage.people import Environment
from reenact.server.storage.retention import Days, read_days, set_days

__all__ = [
    "EnvironmentRequest",
    "KnownNames",
    "NewTenant",
    "Retention",
    "TenantChange",
    "TenantRequest",
    "add_tenant",
    "change_tenant",
    "environment_kinds",
    "known_names",
    "list_environments",
    "list_tenants",
    "read_retention",
    "set_environment",
    "set_retention",
]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_Number = Annotated[int, msgspec.Meta(ge=0, le=36_500)]


class TenantRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``admin`` is the e-mail address of its first administrator."""

    name: str
    tier: Tier = "low"
    dedicated: bool = False
    admin: str = ""


class TenantChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New tier and infrastructure of a tenant. Missing fields are unchanged."""

    tier: Tier | msgspec.UnsetType = msgspec.UNSET
    dedicated: bool | msgspec.UnsetType = msgspec.UNSET


class NewTenant(msgspec.Struct, frozen=True):
    """A tenant, and the invitation of its first administrator if one was named."""

    id: str
    name: str
    tier: Tier
    dedicated: bool
    admin: Invitation | None


class EnvironmentRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New kind of an environment."""

    kind: EnvironmentKind


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retention periods in days; 0 means unlimited."""

    exchanges: _Number = 0
    recordings: _Number = 0
    captures: _Number = 0


async def list_tenants(caller: Caller) -> tuple[TenantFacts, ...]:
    """Return all tenants in the order of their ids."""
    caller.require("platform:admin")
    async with caller.server.database.platform() as transaction:
        return tuple(await platform.tenants(transaction))


async def add_tenant(caller: Caller, address: str, wanted: TenantRequest) -> NewTenant:
    """Create a tenant, and invite its first administrator if one is named.

    ``address`` is the address of this server for links. Raises :class:`Problem` for an invalid or
    taken name.
    """
    caller.require("platform:admin")
    if not _NAME.fullmatch(wanted.name):
        raise Problem("invalid", "a tenant's name is letters, digits and . _ -", field="name")
    tenant = TenantFacts(caller.server.new_id("tnt"), wanted.name, wanted.tier, wanted.dedicated)
    async with caller.server.database.platform(write=True) as transaction:
        if await platform.tenant_ids(transaction, tenant.name):
            raise Problem(
                "conflict",
                f"there is a tenant {tenant.name!r} already",
                hint="choose another name",
            )
        await platform.add_tenant(transaction, tenant, caller.server.now())
        await _record(caller, transaction, tenant, "tenant.created")
        scope = transaction.scope(tenant.id)
        invited = await _first_admin(caller, scope, address, wanted.admin) if wanted.admin else None
    return NewTenant(tenant.id, tenant.name, tenant.tier, tenant.dedicated, invited)


async def _first_admin(caller: Caller, scope: Scope, address: str, email: str) -> Invitation:
    invited = await accounts.invite(caller.server, scope, address, email)
    grant = Grant("tenant admin", id=caller.server.new_id("grt"))
    now, by = caller.server.now(), caller.principal.id
    await people.add_grant(scope, "user", invited.id, grant, now, by)
    for action, what in (("user.created", ""), ("role.granted", grant.what)):
        await caller.record(scope, action, "user", invited.id, "platform:admin", what=what)
    return invited


async def change_tenant(caller: Caller, tenant_id: str, wanted: TenantChange) -> TenantFacts:
    """Change a tenant, and return the result. Raises :class:`Problem` for an unknown tenant."""
    caller.require("platform:admin")
    async with caller.server.database.platform(write=True) as transaction:
        before = await platform.tenant_by_id(transaction, tenant_id)
        if before is None:
            raise Problem("not_found", "there is no such tenant")
        after = TenantFacts(
            before.id,
            before.name,
            before.tier if wanted.tier is msgspec.UNSET else wanted.tier,
            before.dedicated if wanted.dedicated is msgspec.UNSET else wanted.dedicated,
        )
        await platform.change_tenant(transaction, after.id, after.tier, after.dedicated)
        if after.tier != before.tier:
            await _record(caller, transaction, after, "tier.changed", before=before.tier)
        if after.dedicated != before.dedicated:
            await _record(caller, transaction, after, "tenant.changed")
    return after


async def _record(
    caller: Caller, transaction: Platform, tenant: TenantFacts, action: str, **details: str
) -> None:
    """Write a record to the tenant's log and to the log of the acting user's tenant."""
    for log in dict.fromkeys((tenant.id, caller.tenant)):
        await caller.record(
            transaction.scope(log),
            action,
            "tenant",
            tenant.id,
            "platform:admin",
            tier=tenant.tier,
            dedicated="yes" if tenant.dedicated else "no",
            **details,
        )


async def list_environments(caller: Caller) -> tuple[Environment, ...]:
    """Return all environments with a configured kind, by name."""
    caller.require_anywhere("agent:read")
    async with caller.server.database.reading(caller.tenant) as scope:
        return tuple(await people.environments(scope))


async def environment_kinds(caller: Caller) -> dict[str, str]:
    """Return the kinds of all environments by name; nothing without permission to see them.

    An unlisted environment counts as production.
    """
    if not caller.has_anywhere("agent:read"):
        return {}
    return {one.name: one.kind for one in await list_environments(caller)}


class KnownNames(msgspec.Struct, frozen=True):
    """Apps and environments for filters. ``kinds`` maps environments to their kinds."""

    kinds: dict[str, str]
    apps: frozenset[str]
    environments: frozenset[str]


async def known_names(caller: Caller) -> KnownNames:
    """Return the apps and environments that filters offer to the caller."""
    if not caller.has_anywhere("agent:read"):
        return KnownNames({}, frozenset(), frozenset())
    kinds = await environment_kinds(caller)
    async with caller.server.database.reading(caller.tenant) as scope:
        rows = await agent_places(scope, places_of(caller, "agent:read"), MOST_ITEMS)
    apps = frozenset(row.app for row in rows)
    return KnownNames(kinds, apps, frozenset(kinds) | {row.environment for row in rows})


async def set_environment(caller: Caller, name: str, wanted: EnvironmentRequest) -> Environment:
    """Set the kind of an environment. Raises :class:`Problem` for an invalid name."""
    caller.require("tenant:admin")
    if not _ENVIRONMENT.fullmatch(name):
        raise Problem("invalid", "an environment's name is letters, digits and . _ -", field="name")
    environment = Environment(name, wanted.kind)
    async with caller.server.database.writing(caller.tenant) as scope:
        await people.set_environment(scope, environment)
        await caller.record(
            scope, "environment.changed", "environment", name, "tenant:admin", kind=wanted.kind
        )
    return environment


async def read_retention(caller: Caller) -> Retention:
    """Return the retention periods of the caller's tenant."""
    caller.require("tenant:admin")
    async with caller.server.database.reading(caller.tenant) as scope:
        row = await read_days(scope)
    if row is None:
        return Retention()
    return Retention(exchanges=row.exchanges, recordings=row.recordings, captures=row.captures)


async def set_retention(caller: Caller, wanted: Retention) -> Retention:
    """Set the retention periods. The next run erases everything older, permanently."""
    caller.require("tenant:admin")
    days = Days(wanted.exchanges, wanted.recordings, wanted.captures)
    async with caller.server.database.writing(caller.tenant) as scope:
        await set_days(scope, days, caller.server.now(), caller.principal.id)
        await caller.record(
            scope,
            "retention.changed",
            "tenant",
            caller.tenant,
            "tenant:admin",
            exchanges=str(wanted.exchanges),
            recordings=str(wanted.recordings),
            captures=str(wanted.captures),
        )
    return wanted
