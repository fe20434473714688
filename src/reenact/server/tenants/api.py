"""Tenants, for platform administrators, and the environments of one's own tenant."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from starlette.responses import Response

from reenact.server.audit.log import changed
from reenact.server.auth.permissions import EnvironmentKind, Grant, Tier
from reenact.server.context import RequestContext
from reenact.server.endpoint import ApiDescription, Endpoint
from reenact.server.people import accounts
from reenact.server.people.schema import Invitation
from reenact.server.problems import Problem
from reenact.server.responses import ListResponse, answer
from reenact.server.runtime import TenantFacts
from reenact.server.storage import people, platform
from reenact.server.storage.database import Platform, Scope
from reenact.server.storage.people import Environment

__all__ = [
    "ENDPOINTS",
    "NewTenant",
    "add_tenant",
    "change_tenant",
    "list_environments",
    "list_tenants",
    "set_environment",
]

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,99}")
_ENVIRONMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class TenantRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``admin`` is the e-mail address of its first administrator."""

    name: str
    tier: Tier = "low"
    dedicated: bool = False
    admin: str = ""


class TenantChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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
    kind: EnvironmentKind


async def list_tenants(context: RequestContext) -> ListResponse[TenantFacts]:
    """``GET /api/v1/tenants``: all at once, in the order of their ids."""
    context.require("platform:admin")
    async with context.server.database.platform() as transaction:
        return ListResponse(list(await platform.tenants(transaction)))


async def add_tenant(context: RequestContext) -> Response:
    """``POST /api/v1/tenants``: 201 with the tenant; 422 for a name that cannot be one,
    409 for one that is taken."""
    context.require("platform:admin")
    asked = await context.json(TenantRequest)
    if not _NAME.fullmatch(asked.name):
        raise Problem("invalid", "a tenant's name is letters, digits and . _ -", field="name")
    tenant = TenantFacts(context.server.new_id("tnt"), asked.name, asked.tier, asked.dedicated)
    async with context.server.database.platform(write=True) as transaction:
        if await platform.tenant_ids(transaction, tenant.name):
            raise Problem(
                "conflict",
                f"there is a tenant {tenant.name!r} already",
                hint="choose another name",
            )
        await platform.add_tenant(transaction, tenant, context.server.now())
        await _record(context, transaction, tenant, "tenant.created")
        scope = transaction.scope(tenant.id)
        invited = await _first_admin(context, scope, asked.admin) if asked.admin else None
    made = NewTenant(tenant.id, tenant.name, tenant.tier, tenant.dedicated, invited)
    return answer(made, 201)


async def _first_admin(context: RequestContext, scope: Scope, email: str) -> Invitation:
    invited = await accounts.invite(context.server, scope, context.request, email)
    grant = Grant("tenant admin", id=context.server.new_id("grt"))
    now, by = context.server.now(), context.principal.id
    await people.add_grant(scope, "user", invited.id, grant, now, by)
    for action in ("user.created", "role.granted"):
        record = changed(
            context.principal,
            action,
            "user",
            invited.id,
            "platform:admin",
            tenant=scope.tenant,
            what=grant.what if action == "role.granted" else "",
        )
        await context.server.auditor.write(scope, record)
    return invited


async def change_tenant(context: RequestContext) -> TenantFacts:
    """``PATCH /api/v1/tenants/{id}``: the tenant as it is then; 404 for no such tenant."""
    context.require("platform:admin")
    asked = await context.json(TenantChange)
    async with context.server.database.platform(write=True) as transaction:
        before = await platform.tenant_by_id(transaction, context.path("id"))
        if before is None:
            raise Problem("not_found", "there is no such tenant")
        after = TenantFacts(
            before.id,
            before.name,
            before.tier if asked.tier is msgspec.UNSET else asked.tier,
            before.dedicated if asked.dedicated is msgspec.UNSET else asked.dedicated,
        )
        await platform.change_tenant(transaction, after.id, after.tier, after.dedicated)
        if after.tier != before.tier:
            await _record(context, transaction, after, "tier.changed", before=before.tier)
        if after.dedicated != before.dedicated:
            await _record(context, transaction, after, "tenant.changed")
    return after


async def _record(
    context: RequestContext, transaction: Platform, tenant: TenantFacts, action: str, **details: str
) -> None:
    """Write a record to the tenant's log and to the log of the acting user's tenant."""
    for log in dict.fromkeys((tenant.id, context.tenant)):
        record = changed(
            context.principal,
            action,
            "tenant",
            tenant.id,
            "platform:admin",
            tenant=log,
            tier=tenant.tier,
            dedicated="yes" if tenant.dedicated else "no",
            **details,
        )
        await context.server.auditor.write(transaction.scope(log), record)


async def list_environments(context: RequestContext) -> ListResponse[Environment]:
    """``GET /api/v1/environments``: all environments with a configured kind, by name."""
    async with context.server.database.reading(context.tenant) as scope:
        return ListResponse(list(await people.environments(scope)))


async def set_environment(context: RequestContext) -> Environment:
    """``PUT /api/v1/environments/{name}``: the environment; 422 for a name that cannot be one."""
    context.require("tenant:admin")
    name = context.path("name")
    if not _ENVIRONMENT.fullmatch(name):
        raise Problem("invalid", "an environment's name is letters, digits and . _ -", field="name")
    environment = Environment(name, (await context.json(EnvironmentRequest)).kind)
    async with context.server.database.writing(context.tenant) as scope:
        await people.set_environment(scope, environment)
        record = changed(
            context.principal,
            "environment.changed",
            "environment",
            name,
            "tenant:admin",
            kind=environment.kind,
        )
        await context.server.auditor.write(scope, record)
    return environment


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/environments",
        "agent:read",
        list_environments,
        says=ApiDescription("Environments", lists=Environment),
    ),
    Endpoint(
        "PUT",
        "/api/v1/environments/{name}",
        "tenant:admin",
        set_environment,
        says=ApiDescription("Say what one is", takes=EnvironmentRequest, answers=Environment),
    ),
    Endpoint(
        "GET",
        "/api/v1/tenants",
        "platform:admin",
        list_tenants,
        says=ApiDescription("Tenants", lists=TenantFacts),
    ),
    Endpoint(
        "POST",
        "/api/v1/tenants",
        "platform:admin",
        add_tenant,
        says=ApiDescription(
            "Make a tenant",
            takes=TenantRequest,
            answers=NewTenant,
            status=(201,),
            codes=("conflict",),
        ),
    ),
    Endpoint(
        "PATCH",
        "/api/v1/tenants/{id}",
        "platform:admin",
        change_tenant,
        says=ApiDescription("Change a tenant", takes=TenantChange, answers=TenantFacts),
    ),
)
