"""API of batches and saved searches."""

from __future__ import annotations

from functools import partial
from typing import Final

import msgspec
from starlette.responses import Response

from reenact.server.auth.permissions import Permission
from reenact.server.batches import searches, service
from reenact.server.batches.schema import (
    BatchRequest,
    BatchView,
    CauseView,
    ItemView,
    SavedSearch,
    Search,
)
from reenact.server.batches.service import ITEM_FILTERS
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, answer, api
from reenact.server.http.sse import follow
from reenact.server.notifications import batch_subject
from reenact.server.pagination import ListResponse, page_of

__all__ = ["ENDPOINTS"]

_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")
_BATCH: Final = "/api/v1/batches/{id}"
_SEARCH: Final = "/api/v1/searches/{name}"

_LAST: Final = ("completed", "cancelled")


async def _plan(context: RequestContext) -> Response:
    view = await service.plan_batch(context, await context.json(BatchRequest))
    response = answer(view, 201)
    response.headers["Location"] = f"/api/v1/batches/{view.batch_id}"
    return response


async def _search(context: RequestContext) -> ListResponse[BatchView]:
    return await service.search_batches(context, context.query("state"), page_of(context))


async def _read(context: RequestContext) -> BatchView:
    return await service.read_batch(context, context.path("id"))


async def _items(context: RequestContext) -> ListResponse[ItemView]:
    after, limit = context.number("cursor", 0), context.limit
    filters = {name: context.query(name) for name in ITEM_FILTERS}
    return await service.read_items(context, context.path("id"), filters, after, limit)


async def _causes(context: RequestContext) -> ListResponse[CauseView]:
    return await service.read_causes(context, context.path("id"), context.limit)


async def _watch(context: RequestContext) -> Response:
    """Stream the batch now and after each change, until it has ended."""
    read = partial(service.read_batch, context, context.path("id"))
    await read()
    return follow(
        context,
        batch_subject(context.tenant, context.path("id")),
        "progress",
        read,
        key=msgspec.json.encode,
        is_over=lambda view: view.state in _LAST,
    )


async def _confirm(context: RequestContext) -> BatchView:
    return await service.confirm_batch(context, context.path("id"))


async def _cancel(context: RequestContext) -> BatchView:
    return await service.cancel_batch(context, context.path("id"))


async def _list_searches(context: RequestContext) -> ListResponse[SavedSearch]:
    return await searches.list_searches(context, context.query("cursor"), context.limit)


async def _read_search(context: RequestContext) -> SavedSearch:
    return await searches.read_search(context, context.path("name"))


async def _save_search(context: RequestContext) -> SavedSearch:
    filters = await context.json(Search)
    return await searches.save_search(context, context.path("name"), filters)


async def _remove_search(context: RequestContext) -> None:
    await searches.remove_search(context, context.path("name"))


ENDPOINTS: Final = (
    api(
        "POST",
        "/api/v1/batches",
        _REPLAYS,
        _plan,
        "Plan a batch: count, and run nothing",
        takes=BatchRequest,
        answers=BatchView,
        status=(201,),
        codes=("not_found",),
    ),
    api(
        "GET",
        "/api/v1/batches",
        "exchange:read",
        _search,
        "Find batches",
        query=(*PAGED, "state"),
        lists=BatchView,
    ),
    api("GET", _BATCH, "exchange:read", _read, "A batch", answers=BatchView),
    api(
        "GET",
        f"{_BATCH}/items",
        "exchange:read",
        _items,
        "List the exchanges and replays of a batch",
        query=(*PAGED, *ITEM_FILTERS),
        lists=ItemView,
    ),
    api(
        "GET",
        f"{_BATCH}/causes",
        "exchange:read",
        _causes,
        "Group the replays of a batch by cause",
        query=("limit",),
        lists=CauseView,
    ),
    api(
        "GET",
        f"{_BATCH}/events",
        "exchange:read",
        _watch,
        "Stream the progress of a batch",
        media=("text/event-stream",),
    ),
    api(
        "POST",
        f"{_BATCH}/confirm",
        _REPLAYS,
        _confirm,
        "Run a batch",
        answers=BatchView,
        codes=("conflict", "reason_required"),
    ),
    api("POST", f"{_BATCH}/cancel", _REPLAYS, _cancel, "End it", answers=BatchView),
    api(
        "GET",
        "/api/v1/searches",
        "exchange:read",
        _list_searches,
        "Saved searches",
        query=PAGED,
        lists=SavedSearch,
    ),
    api("GET", _SEARCH, "exchange:read", _read_search, "A saved search", answers=SavedSearch),
    api(
        "PUT",
        _SEARCH,
        "exchange:read",
        _save_search,
        "Save a search",
        takes=Search,
        answers=SavedSearch,
        codes=("conflict",),
    ),
    api(
        "DELETE",
        _SEARCH,
        "exchange:read",
        _remove_search,
        "Delete a saved search",
        status=(204,),
        codes=("conflict",),
    ),
)
