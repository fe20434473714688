"""The routes of batches and saved searches."""

from __future__ import annotations

from typing import Final

from reenact.server.auth.permissions import Permission
from reenact.server.batches.schema import (
    BatchAsked,
    BatchView,
    CauseView,
    ItemView,
    SavedSearch,
    Search,
)
from reenact.server.batches.searches import put_search, read_search, read_searches, remove
from reenact.server.batches.service import (
    ITEM_FILTERS,
    cancel_batch,
    confirm_batch,
    plan_batch,
    read_batch,
    read_batches,
    read_causes,
    read_items,
    watch_batch,
)
from reenact.server.endpoint import PAGED, ApiDescription, Endpoint

__all__ = ["ENDPOINTS"]

_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")
_BATCH: Final = "/api/v1/batches/{id}"
_SEARCH: Final = "/api/v1/searches/{name}"

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/api/v1/batches",
        _REPLAYS,
        plan_batch,
        says=ApiDescription(
            "Plan a batch: count, and run nothing",
            takes=BatchAsked,
            answers=BatchView,
            status=(201,),
            codes=("not_found",),
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/batches",
        "exchange:read",
        read_batches,
        says=ApiDescription("Find batches", query=(*PAGED, "state"), lists=BatchView),
    ),
    Endpoint(
        "GET",
        _BATCH,
        "exchange:read",
        read_batch,
        says=ApiDescription("A batch", answers=BatchView),
    ),
    Endpoint(
        "GET",
        f"{_BATCH}/items",
        "exchange:read",
        read_items,
        says=ApiDescription(
            "Its exchanges and replays", query=(*PAGED, *ITEM_FILTERS), lists=ItemView
        ),
    ),
    Endpoint(
        "GET",
        f"{_BATCH}/causes",
        "exchange:read",
        read_causes,
        says=ApiDescription("Why its replays differ", query=("limit",), lists=CauseView),
    ),
    Endpoint(
        "GET",
        f"{_BATCH}/events",
        "exchange:read",
        watch_batch,
        says=ApiDescription("How it gets on", media=("text/event-stream",)),
    ),
    Endpoint(
        "POST",
        f"{_BATCH}/confirm",
        _REPLAYS,
        confirm_batch,
        says=ApiDescription("Run it", answers=BatchView, codes=("conflict", "reason_required")),
    ),
    Endpoint(
        "POST",
        f"{_BATCH}/cancel",
        _REPLAYS,
        cancel_batch,
        says=ApiDescription("End it", answers=BatchView),
    ),
    Endpoint(
        "GET",
        "/api/v1/searches",
        "exchange:read",
        read_searches,
        says=ApiDescription("Saved searches", query=PAGED, lists=SavedSearch),
    ),
    Endpoint(
        "GET",
        _SEARCH,
        "exchange:read",
        read_search,
        says=ApiDescription("A saved search", answers=SavedSearch),
    ),
    Endpoint(
        "PUT",
        _SEARCH,
        "exchange:read",
        put_search,
        says=ApiDescription(
            "Save a search", takes=Search, answers=SavedSearch, codes=("conflict",)
        ),
    ),
    Endpoint(
        "DELETE",
        _SEARCH,
        "exchange:read",
        remove,
        says=ApiDescription("Forget it", status=(204,), codes=("conflict",)),
    ),
)
