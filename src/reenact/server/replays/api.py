"""API of replays, comparisons and noise rules."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.responses import Response

from reenact.audit.replay_proof import SUFFIX, dump_replay_proof
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.model import STATES, TERMINAL, VERDICTS
from reenact.server.auth.permissions import Permission
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, answer, api
from reenact.server.exchanges.schema import ReplayView
from reenact.server.http.sse import follow
from reenact.server.notifications import replay_subject
from reenact.server.pagination import ListResponse, one_of, page_of
from reenact.server.replays import compare, service
from reenact.server.replays.compare import Learning, RouteRules
from reenact.server.replays.schema import ReplayRequest
from reenact.server.replays.service import prove_replay
from reenact.server.storage.replays import ReplayFilters

__all__ = ["ENDPOINTS", "replay_filters"]

_REPLAYS: Final[tuple[Permission, ...]] = ("replay:execute", "replay:execute:production")
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
_REPLAY: Final = "/api/v1/replays/{id}"


async def _request(context: RequestContext) -> Response:
    wanted = await context.json(ReplayRequest, most=4 * context.server.limits.payload)
    key = context.header("idempotency-key")
    view = await service.request_replay(context, context.path("id"), wanted, key)
    response = answer(view, 202)
    response.headers["Location"] = f"/api/v1/replays/{view.replay_id}"
    return response


def replay_filters(context: RequestContext, since: int, until: int) -> ReplayFilters:
    """Return the filters of a list of replays. Raises :class:`Problem`."""
    return ReplayFilters(
        exchange=context.query("exchange"),
        app=context.query("app"),
        environment=context.query("environment"),
        route=context.query("route"),
        state=one_of(context, "state", STATES),
        verdict=one_of(context, "verdict", VERDICTS),
        by=context.query("by"),
        since=since,
        until=until,
    )


async def _search(context: RequestContext) -> ListResponse[ReplayView]:
    page, since = page_of(context), context.number("since", 0)
    filters = replay_filters(context, since, context.number("until", 0))
    return await service.search_replays(context, filters, page)


async def _read(context: RequestContext) -> ReplayView:
    return await service.read_replay(context, context.path("id"))


async def _watch(context: RequestContext) -> Response:
    """Stream every state of a replay, from the current one to the last."""
    read = partial(service.read_replay, context, context.path("id"))
    await read()
    return follow(
        context,
        replay_subject(context.tenant, context.path("id")),
        "state",
        read,
        key=lambda view: view.state,
        is_over=lambda view: view.state in TERMINAL,
    )


async def _cancel(context: RequestContext) -> ReplayView:
    return await service.cancel_replay(context, context.path("id"))


async def _compare_exchanges(context: RequestContext) -> Comparison:
    return await compare.compare_exchanges(context, context.path("a"), context.path("b"))


async def _compare_replay(context: RequestContext) -> Comparison:
    return await compare.compare_replay(context, context.path("id"))


async def _prove(context: RequestContext) -> Response:
    proof = await prove_replay(context, context.path("id"))
    headers = {"Content-Disposition": f'attachment; filename="{proof.replay_id}{SUFFIX}"'}
    return Response(dump_replay_proof(proof), 200, headers, "application/json")


async def _noise_rules(context: RequestContext) -> ListResponse[RouteRules]:
    app, route = context.query("app"), context.query("route")
    return ListResponse(items=await compare.list_noise_rules(context, app, route))


async def _replace_noise_rules(context: RequestContext) -> RouteRules:
    return await compare.replace_noise_rules(context, await context.json(RouteRules))


async def _learn_noise(context: RequestContext) -> RouteRules:
    return await compare.learn_noise(context, await context.json(Learning))


ENDPOINTS: Final = (
    api(
        "GET",
        "/api/v1/exchanges/{a}/diff/{b}",
        "exchange:read",
        _compare_exchanges,
        "Compare two exchanges",
        answers=Comparison,
        codes=("gone",),
    ),
    api(
        "POST",
        "/api/v1/exchanges/{id}/replays",
        _REPLAYS,
        _request,
        "Replay it",
        takes=ReplayRequest,
        answers=ReplayView,
        status=(202,),
        codes=_REFUSALS,
    ),
    api(
        "GET",
        "/api/v1/replays",
        "exchange:read",
        _search,
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
    api("GET", _REPLAY, "exchange:read", _read, "A replay", answers=ReplayView),
    api(
        "GET",
        f"{_REPLAY}/events",
        "exchange:read",
        _watch,
        "Stream the states of a replay",
        media=_EVENTS,
    ),
    api("POST", f"{_REPLAY}/cancel", _REPLAYS, _cancel, "Cancel a replay", answers=ReplayView),
    api(
        "GET",
        f"{_REPLAY}/diff",
        "exchange:read",
        _compare_replay,
        "Compare a replay with its source",
        answers=Comparison,
        codes=("conflict", "gone"),
    ),
    api(
        "GET",
        f"{_REPLAY}/proof",
        "audit:read",
        _prove,
        "Read the proof of a replay",
        media=("application/json",),
    ),
    api(
        "GET",
        "/api/v1/noise",
        "exchange:read",
        _noise_rules,
        "Noise rules",
        query=("app", "route"),
        lists=RouteRules,
    ),
    api(
        "PUT",
        "/api/v1/noise",
        "replay:execute",
        _replace_noise_rules,
        "Replace the noise rules of a route",
        takes=RouteRules,
        answers=RouteRules,
    ),
    api(
        "POST",
        "/api/v1/noise/learn",
        "replay:execute",
        _learn_noise,
        "Learn noise rules from two replays",
        takes=Learning,
        answers=RouteRules,
        codes=("not_found", "conflict", "gone"),
    ),
)
