"""The routes of exchanges and replays."""

from __future__ import annotations

from typing import Final

from reenact.exchange.comparison.calls import Call
from reenact.exchange.comparison.graph import Branch, Graph
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.model import STATES, STATUSES, VERDICTS
from reenact.server.auth.permissions import Permission
from reenact.server.endpoint import PAGED, ApiDescription, Endpoint
from reenact.server.exchanges.ingest import IngestAnswer, ingest
from reenact.server.exchanges.schema import ExchangeBrief, ExchangeView, ReplayView
from reenact.server.exchanges.service import (
    read_calls,
    read_correlation,
    read_exchange,
    read_exchanges,
    read_lineage,
    read_recording,
)
from reenact.server.pagination import REPLAYS
from reenact.server.replays.compare import (
    Learning,
    RouteRules,
    diff_exchanges,
    diff_replay,
    learn_noise,
    put_noise,
    read_noise,
)
from reenact.server.replays.proof import prove_replay
from reenact.server.replays.schema import ReplayRequest
from reenact.server.replays.service import (
    cancel_replay,
    read_replay,
    read_replays,
    request_replay,
    watch_replay,
)

__all__ = ["ENDPOINTS"]

_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")
_BYTES: Final = ("application/octet-stream",)
_EVENTS: Final = ("text/event-stream",)
_REFUSALS: Final = (
    "agent_offline",
    "not_replayable",
    "revision_mismatch",
    "replay_depth",
    "rate_limited",
    "idempotency_conflict",
    "gone",
)
_EXCHANGE: Final = "/api/v1/exchanges/{id}"
_REPLAY: Final = "/api/v1/replays/{id}"

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/api/v1/ingest",
        "agent:connect",
        ingest,
        says=ApiDescription(
            "Take in exchanges",
            takes=("application/x-ndjson",),
            answers=IngestAnswer,
            codes=("rate_limited", "unavailable"),
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/exchanges",
        "exchange:read",
        read_exchanges,
        says=ApiDescription(
            "Find exchanges",
            query=(
                *PAGED,
                "app",
                "environment",
                "route",
                "status",
                "replay",
                "replayable",
                "since",
                "until",
                "traceId",
                "correlationId",
                "text",
            ),
            words={"status": STATUSES, "replay": REPLAYS},
            lists=ExchangeBrief,
        ),
    ),
    Endpoint(
        "GET",
        _EXCHANGE,
        "exchange:read",
        read_exchange,
        says=ApiDescription("An exchange", answers=ExchangeView),
    ),
    Endpoint(
        "GET",
        f"{_EXCHANGE}/calls",
        "exchange:read",
        read_calls,
        says=ApiDescription("The calls that it made", lists=Call, codes=("gone",)),
    ),
    Endpoint(
        "GET",
        f"{_EXCHANGE}/recording",
        "exchange:read",
        read_recording,
        says=ApiDescription("Its recording, packed", media=_BYTES, codes=("gone",)),
    ),
    Endpoint(
        "GET",
        f"{_EXCHANGE}/lineage",
        "exchange:read",
        read_lineage,
        says=ApiDescription("Its original and all replays", answers=Branch),
    ),
    Endpoint(
        "GET",
        f"{_EXCHANGE}/correlation",
        "exchange:read",
        read_correlation,
        says=ApiDescription("What belongs together", answers=Graph),
    ),
    Endpoint(
        "GET",
        "/api/v1/exchanges/{a}/diff/{b}",
        "exchange:read",
        diff_exchanges,
        says=ApiDescription("What differs between two", answers=Comparison, codes=("gone",)),
    ),
    Endpoint(
        "POST",
        f"{_EXCHANGE}/replays",
        _REPLAYS,
        request_replay,
        says=ApiDescription(
            "Replay it", takes=ReplayRequest, answers=ReplayView, status=(202,), codes=_REFUSALS
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/replays",
        "exchange:read",
        read_replays,
        says=ApiDescription(
            "Find replays",
            query=(
                *PAGED,
                "exchange",
                "app",
                "environment",
                "route",
                "state",
                "verdict",
                "by",
                "since",
                "until",
            ),
            words={"state": STATES, "verdict": VERDICTS},
            lists=ReplayView,
        ),
    ),
    Endpoint(
        "GET",
        _REPLAY,
        "exchange:read",
        read_replay,
        says=ApiDescription("A replay", answers=ReplayView),
    ),
    Endpoint(
        "GET",
        f"{_REPLAY}/events",
        "exchange:read",
        watch_replay,
        says=ApiDescription("Its states as they come", media=_EVENTS),
    ),
    Endpoint(
        "POST",
        f"{_REPLAY}/cancel",
        _REPLAYS,
        cancel_replay,
        says=ApiDescription("End it", answers=ReplayView),
    ),
    Endpoint(
        "GET",
        f"{_REPLAY}/diff",
        "exchange:read",
        diff_replay,
        says=ApiDescription(
            "What differs from its source", answers=Comparison, codes=("conflict", "gone")
        ),
    ),
    Endpoint(
        "GET",
        f"{_REPLAY}/proof",
        "audit:read",
        prove_replay,
        says=ApiDescription("The proof of it", media=("application/json",)),
    ),
    Endpoint(
        "GET",
        "/api/v1/noise",
        "exchange:read",
        read_noise,
        says=ApiDescription("Noise rules", query=("app", "route"), lists=RouteRules),
    ),
    Endpoint(
        "PUT",
        "/api/v1/noise",
        "replay:execute",
        put_noise,
        says=ApiDescription("Replace those of a route", takes=RouteRules, answers=RouteRules),
    ),
    Endpoint(
        "POST",
        "/api/v1/noise/learn",
        "replay:execute",
        learn_noise,
        says=ApiDescription(
            "Learn them from two replays",
            takes=Learning,
            answers=RouteRules,
            codes=("not_found", "conflict", "gone"),
        ),
    ),
)
