"""The routes of batches and saved searches."""

from __future__ import annotations

from typing import Final

from reenact.server.access import Permission
from reenact.server.batches.confirming import cancel_batch, confirm_batch
from reenact.server.batches.planning import plan_batch
from reenact.server.batches.reading import (
    ITEM_FILTERS,
    read_batch,
    read_batches,
    read_causes,
    read_items,
    watch_batch,
)
from reenact.server.batches.searches import put_search, read_search, read_searches, remove
from reenact.server.batches.shapes import (
    BatchAsked,
    BatchView,
    CauseView,
    ItemView,
    SavedSearch,
    Search,
)
from reenact.server.routing import PAGED, Endpoint, Says

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
        says=Says(
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
        says=Says("Find batches", query=(*PAGED, "state"), lists=BatchView),
    ),
    Endpoint("GET", _BATCH, "exchange:read", read_batch, says=Says("A batch", answers=BatchView)),
    Endpoint(
        "GET",
        f"{_BATCH}/items",
        "exchange:read",
        read_items,
        says=Says("Its exchanges and replays", query=(*PAGED, *ITEM_FILTERS), lists=ItemView),
    ),
    Endpoint(
        "GET",
        f"{_BATCH}/causes",
        "exchange:read",
        read_causes,
        says=Says("Why its replays differ", query=("limit",), lists=CauseView),
    ),
    Endpoint(
        "GET",
        f"{_BATCH}/events",
        "exchange:read",
        watch_batch,
        says=Says("How it gets on", media=("text/event-stream",)),
    ),
    Endpoint(
        "POST",
        f"{_BATCH}/confirm",
        _REPLAYS,
        confirm_batch,
        says=Says("Run it", answers=BatchView, codes=("conflict", "reason_required")),
    ),
    Endpoint(
        "POST", f"{_BATCH}/cancel", _REPLAYS, cancel_batch, says=Says("End it", answers=BatchView)
    ),
    Endpoint(
        "GET",
        "/api/v1/searches",
        "exchange:read",
        read_searches,
        says=Says("Saved searches", query=PAGED, lists=SavedSearch),
    ),
    Endpoint(
        "GET",
        _SEARCH,
        "exchange:read",
        read_search,
        says=Says("A saved search", answers=SavedSearch),
    ),
    Endpoint(
        "PUT",
        _SEARCH,
        "exchange:read",
        put_search,
        says=Says("Save a search", takes=Search, answers=SavedSearch, codes=("conflict",)),
    ),
    Endpoint(
        "DELETE",
        _SEARCH,
        "exchange:read",
        remove,
        says=Says("Forget it", status=(204,), codes=("conflict",)),
    ),
)
