"""The routes of batches and saved searches."""

from __future__ import annotations

from typing import Final

from reenact.server.access import Permission
from reenact.server.batches.confirming import cancel_batch, confirm_batch
from reenact.server.batches.planning import plan_batch
from reenact.server.batches.reading import read_batch, read_batches, read_items, watch_batch
from reenact.server.batches.searches import put_search, read_search, read_searches, remove
from reenact.server.routing import Endpoint

__all__ = ["ENDPOINTS"]

_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")
_BATCH: Final = "/api/v1/batches/{id}"
_SEARCH: Final = "/api/v1/searches/{name}"

ENDPOINTS: Final = (
    Endpoint("POST", "/api/v1/batches", _REPLAYS, plan_batch),
    Endpoint("GET", "/api/v1/batches", "exchange:read", read_batches),
    Endpoint("GET", _BATCH, "exchange:read", read_batch),
    Endpoint("GET", f"{_BATCH}/items", "exchange:read", read_items),
    Endpoint("GET", f"{_BATCH}/events", "exchange:read", watch_batch),
    Endpoint("POST", f"{_BATCH}/confirm", _REPLAYS, confirm_batch),
    Endpoint("POST", f"{_BATCH}/cancel", _REPLAYS, cancel_batch),
    Endpoint("GET", "/api/v1/searches", "exchange:read", read_searches),
    Endpoint("GET", _SEARCH, "exchange:read", read_search),
    Endpoint("PUT", _SEARCH, "exchange:read", put_search),
    Endpoint("DELETE", _SEARCH, "exchange:read", remove),
)
