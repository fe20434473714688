"""API of tenants, environments and retention."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.context import RequestContext
from reenact.server.endpoint import answer, api
from reenact.server.pagination import ListResponse
from reenact.server.people.accounts import address_here
from reenact.server.runtime import TenantFacts
from reenact.server.storage.people import Environment
from reenact.server.tenants import service
from reenact.server.tenants.service import (
    EnvironmentRequest,
    NewTenant,
    Retention,
    TenantChange,
    TenantRequest,
)

__all__ = ["ENDPOINTS"]

_RETENTION: Final = "/api/v1/retention"


async def _list_tenants(context: RequestContext) -> ListResponse[TenantFacts]:
    return ListResponse([*await service.list_tenants(context)])


async def _add_tenant(context: RequestContext) -> Response:
    wanted = await context.json(TenantRequest)
    return answer(await service.add_tenant(context, address_here(context), wanted), 201)


async def _change_tenant(context: RequestContext) -> TenantFacts:
    wanted = await context.json(TenantChange)
    return await service.change_tenant(context, context.path("id"), wanted)


async def _list_environments(context: RequestContext) -> ListResponse[Environment]:
    return ListResponse([*await service.list_environments(context)])


async def _set_environment(context: RequestContext) -> Environment:
    wanted = await context.json(EnvironmentRequest)
    return await service.set_environment(context, context.path("name"), wanted)


async def _read_retention(context: RequestContext) -> Retention:
    return await service.read_retention(context)


async def _set_retention(context: RequestContext) -> Retention:
    return await service.set_retention(context, await context.json(Retention))


ENDPOINTS: Final = (
    api(
        "GET",
        "/api/v1/environments",
        "agent:read",
        _list_environments,
        "Environments",
        lists=Environment,
    ),
    api(
        "PUT",
        "/api/v1/environments/{name}",
        "tenant:admin",
        _set_environment,
        "Set the kind of an environment",
        takes=EnvironmentRequest,
        answers=Environment,
    ),
    api("GET", "/api/v1/tenants", "platform:admin", _list_tenants, "Tenants", lists=TenantFacts),
    api(
        "POST",
        "/api/v1/tenants",
        "platform:admin",
        _add_tenant,
        "Create a tenant",
        takes=TenantRequest,
        answers=NewTenant,
        status=(201,),
        codes=("conflict",),
    ),
    api(
        "PATCH",
        "/api/v1/tenants/{id}",
        "platform:admin",
        _change_tenant,
        "Change a tenant",
        takes=TenantChange,
        answers=TenantFacts,
    ),
    api(
        "GET",
        _RETENTION,
        "tenant:admin",
        _read_retention,
        "Read the retention times",
        answers=Retention,
    ),
    api(
        "PUT",
        _RETENTION,
        "tenant:admin",
        _set_retention,
        "Change the retention times",
        takes=Retention,
        answers=Retention,
    ),
)
