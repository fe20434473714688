"""API of app agents."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.exchange.model import Heartbeat, Registered, Registration, ReplaySource, StateReport
from reenact.server.agents import service
from reenact.server.agents.command_stream import stream_commands
from reenact.server.agents.presence import STATES, Presence
from reenact.server.agents.service import AgentView
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, api
from reenact.server.pagination import ListResponse, one_of, page_of, yes_or_no

__all__ = ["ENDPOINTS", "states_of"]

_BYTES: Final = ("application/octet-stream",)
_SUPERSEDED: Final = ("agent_superseded",)
_AGENT: Final = "/api/v1/agents/{agent_id}"
_REPLAY: Final = f"{_AGENT}/replays/{{replay_id}}"


def states_of(context: RequestContext) -> tuple[Presence, ...]:
    """Return the requested states of a list of agents. Raises :class:`Problem`."""
    state = one_of(context, "state", STATES)
    if state:
        return tuple(one for one in STATES if one == state)
    return () if yes_or_no(context, "all") else ("online", "offline")


async def _search(context: RequestContext) -> ListResponse[AgentView]:
    page, states = page_of(context), states_of(context)
    app, environment = context.query("app"), context.query("environment")
    return await service.search_agents(
        context, page, app=app, environment=environment, states=states
    )


async def _register(context: RequestContext) -> Registered:
    return await service.register(context, await context.json(Registration))


async def _heartbeat(context: RequestContext) -> None:
    sent = await context.json(Heartbeat)
    await service.heartbeat(context, context.path("agent_id"), sent)


async def _say_goodbye(context: RequestContext) -> None:
    epoch = context.number("epoch", 0)
    await service.say_goodbye(context, context.path("agent_id"), epoch)


def _replay_of(context: RequestContext) -> tuple[str, str]:
    return context.path("agent_id"), context.path("replay_id")


async def _read_source(context: RequestContext) -> ReplaySource:
    return await service.read_source(context, *_replay_of(context))


async def _read_recording(context: RequestContext) -> Response:
    data = await service.read_source_recording(context, *_replay_of(context))
    return Response(data, media_type=_BYTES[0])


async def _report_state(context: RequestContext) -> None:
    sent = await context.json(StateReport)
    await service.report_state(context, *_replay_of(context), sent)


ENDPOINTS: Final = (
    api(
        "GET",
        "/api/v1/agents",
        "agent:read",
        _search,
        "Agents",
        query=(*PAGED, "app", "environment", "state", "all"),
        words={"state": STATES},
        lists=AgentView,
    ),
    api(
        "POST",
        "/api/v1/agents",
        "agent:connect",
        _register,
        "Register an agent",
        takes=Registration,
        answers=Registered,
    ),
    api(
        "POST",
        f"{_AGENT}/heartbeat",
        "agent:connect",
        _heartbeat,
        "Send a heartbeat",
        takes=Heartbeat,
        status=(204,),
        codes=_SUPERSEDED,
    ),
    api(
        "DELETE",
        _AGENT,
        "agent:connect",
        _say_goodbye,
        "Unregister an agent",
        query=("epoch",),
        status=(204,),
    ),
    api(
        "GET",
        f"{_AGENT}/commands",
        "agent:connect",
        stream_commands,
        "Stream commands",
        query=("epoch",),
        media=("text/event-stream",),
        codes=_SUPERSEDED,
    ),
    api(
        "GET",
        f"{_REPLAY}/source",
        "agent:connect",
        _read_source,
        "Read the exchange to replay",
        answers=ReplaySource,
        codes=("gone",),
    ),
    api(
        "GET",
        f"{_REPLAY}/recording",
        "agent:connect",
        _read_recording,
        "Read the packed recording of the exchange",
        media=_BYTES,
        codes=("gone",),
    ),
    api(
        "POST",
        f"{_REPLAY}/state",
        "agent:connect",
        _report_state,
        "Report the state of a replay",
        takes=StateReport,
        status=(204,),
        codes=_SUPERSEDED,
    ),
)
