"""The routes of exchanges and replays."""

from __future__ import annotations

from typing import Final

from reenact.server.access import Permission
from reenact.server.exchanges.comparing import (
    diff_exchanges,
    diff_replay,
    learn_noise,
    put_noise,
    read_noise,
)
from reenact.server.exchanges.history import (
    read_calls,
    read_exchange,
    read_exchanges,
    read_recording,
)
from reenact.server.exchanges.ingesting import ingest
from reenact.server.exchanges.proving import prove_replay
from reenact.server.exchanges.relations import read_correlation, read_lineage
from reenact.server.exchanges.replays import (
    cancel_replay,
    read_replay,
    read_replays,
    watch_replay,
)
from reenact.server.exchanges.requesting import request_replay
from reenact.server.routing import Endpoint

__all__ = ["ENDPOINTS"]

_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")
_EXCHANGE: Final = "/api/v1/exchanges/{id}"
_REPLAY: Final = "/api/v1/replays/{id}"

ENDPOINTS: Final = (
    Endpoint("POST", "/api/v1/ingest", "agent:connect", ingest),
    Endpoint("GET", "/api/v1/exchanges", "exchange:read", read_exchanges),
    Endpoint("GET", _EXCHANGE, "exchange:read", read_exchange),
    Endpoint("GET", f"{_EXCHANGE}/calls", "exchange:read", read_calls),
    Endpoint("GET", f"{_EXCHANGE}/recording", "exchange:read", read_recording),
    Endpoint("GET", f"{_EXCHANGE}/lineage", "exchange:read", read_lineage),
    Endpoint("GET", f"{_EXCHANGE}/correlation", "exchange:read", read_correlation),
    Endpoint("GET", "/api/v1/exchanges/{a}/diff/{b}", "exchange:read", diff_exchanges),
    Endpoint("POST", f"{_EXCHANGE}/replays", _REPLAYS, request_replay),
    Endpoint("GET", "/api/v1/replays", "exchange:read", read_replays),
    Endpoint("GET", _REPLAY, "exchange:read", read_replay),
    Endpoint("GET", f"{_REPLAY}/events", "exchange:read", watch_replay),
    Endpoint("POST", f"{_REPLAY}/cancel", _REPLAYS, cancel_replay),
    Endpoint("GET", f"{_REPLAY}/diff", "exchange:read", diff_replay),
    Endpoint("GET", f"{_REPLAY}/proof", "audit:read", prove_replay),
    Endpoint("GET", "/api/v1/noise", "exchange:read", read_noise),
    Endpoint("PUT", "/api/v1/noise", "replay:execute", put_noise),
    Endpoint("POST", "/api/v1/noise/learn", "replay:execute", learn_noise),
)
