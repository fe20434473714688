"""Explicit API of a session: calls that a program records or replays without a boundary.

Method names follow the source document: ``record_event``, ``next_nondeterministic`` and
``record_nondeterministic`` of its capture context, ``replay_…`` and ``divergences`` of its replay
engine. ``session.aio`` provides the same methods as coroutines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from reenact.engine._lazy import lazy_module
from reenact.engine.call import CAPABILITIES, PAIRS, SOURCES, Call, Entry, draw_call
from reenact.engine.codecs import PlainCodec, copy_value
from reenact.engine.draws import VALUE_CODEC
from reenact.engine.execution.gateway import GatewaySession
from reenact.engine.recording.recorder import InFlightCall
from reenact.engine.request import BOOKKEEPING
from reenact.engine.session.settings import ADDING_MODES, READING_MODES
from reenact.errors import UsageError, did_you_mean
from reenact.format.event import TYPES, Data

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reenact.engine.execution import streams
    from reenact.format import event_fields as payloads
else:
    streams = lazy_module("reenact.engine.execution.streams")
    payloads = lazy_module("reenact.format.event_fields")

__all__ = ["AsyncExplicitApi", "ExplicitApi", "make_explicit_call"]

_MARKS = ("run_start", "run_end")
_PAIR_CAPABILITIES = {"llm_request": "llm.call", "tool_call": "tool.call"}
_CLOSINGS = {closing: opening for opening, closing in PAIRS.items()}


class _Whole(PlainCodec):
    """The whole data of the completing event is the answer."""

    def load(self, call: Call, data: Data) -> Any:
        return data


class _Stated(PlainCodec):
    """The program states the event itself; the fields that say what was asked are in the call."""

    def dump(self, call: Call, result: Any) -> Data:
        known = {"source", "key", "op", "request"}
        return {"instant": True} | {name: result[name] for name in result.keys() - known}


_WHOLE, _STATED = _Whole(), _Stated()


class ExplicitSession(GatewaySession, Protocol):
    """Parts of a session that the explicit API uses."""

    explicit: ExplicitApi


class ExplicitApi:
    """Calls and events that a program states itself, for one session. Thread-safe.

    The public methods are documented in :class:`reenact.engine.session.session.Session`.
    """

    def __init__(self, session: ExplicitSession) -> None:
        self._session = session
        self._pairs = _PairedEvents(session)

    def call(
        self,
        operation: str,
        request: Data | None,
        live: Callable[[], Any] | None,
        capability: str,
        source: str | None,
    ) -> Any:
        call = make_explicit_call(operation, request, capability, source)
        return self._session.gateway.call(call, live or _not_live(operation))

    def stream(
        self,
        operation: str,
        request: Data | None,
        live: Callable[[], Iterator[Any]] | None,
        capability: str,
        source: str | None,
    ) -> Iterator[Any]:
        call = make_explicit_call(operation, request, capability, source, streams=True)
        return streams.stream_sync(self._session, call, live or _not_live(operation))

    def record_event(self, kind: str, data: Data) -> None:
        session = self._session
        _check_event(kind, data)
        if session.mode == "off" or session.is_late():
            return
        session.check_open()
        copy = copy_value(data)
        if kind in _CLOSINGS:
            self._pairs.close(kind, copy)
        else:
            self._pairs.open(kind, copy)

    def record_nondeterministic(self, source: str, key: str, value: Any) -> None:
        session = self._session
        if session.mode == "off" or session.is_late():
            return
        call = draw_call(source, key, observed=True)
        session.gateway.call(call, lambda: value, VALUE_CODEC)

    def next_nondeterministic(self, source: str, key: str) -> Any:
        session = self._session
        _check_replays(session, "next_nondeterministic")
        call = draw_call(source, key)
        if session.mode in ADDING_MODES and not session.decisions.has_recorded(call):
            return None
        return session.gateway.call(call, _not_live(source), VALUE_CODEC)

    def replay_nondeterministic(self, request: Data) -> Data:
        session = self._session
        _check_replays(session, "replay_nondeterministic")
        _check_fields(request, ("source", "key"))
        call = draw_call(request["source"], request["key"])
        found: Data = session.gateway.call(call, _not_live(call.source), _WHOLE)
        return found

    def replay(self, kind: str, request: Data) -> Data:
        session = self._session
        _check_replays(session, f"replay_{kind}")
        # Instant: calls that were open at the same time can be requested one after another.
        call = _pair_call(
            kind, _PAIR_CAPABILITIES[kind], request, instant=True, returns_failure=True
        )
        found: Data = session.gateway.call(call, _not_live(kind), _WHOLE)
        return found

    async def replay_async(self, kind: str, request: Data) -> Data:
        session = self._session
        _check_replays(session, f"replay_{kind}")
        call = _pair_call(kind, _PAIR_CAPABILITIES[kind], request, returns_failure=True)
        found: Data = await session.gateway.acall(call, _not_live(kind), _WHOLE)
        return found


class AsyncExplicitApi:
    """Coroutine variants of the explicit methods of a session."""

    def __init__(self, session: ExplicitSession) -> None:
        self._session = session

    async def call(
        self,
        operation: str,
        request: Data | None = None,
        live: Callable[[], Awaitable[Any]] | None = None,
        *,
        capability: str = "tool.call",
        source: str | None = None,
    ) -> Any:
        """Async variant of :meth:`.Session.call`; ``live`` returns an awaitable."""
        return await self._session.gateway.acall(
            make_explicit_call(operation, request, capability, source), live or _not_live(operation)
        )

    def stream(
        self,
        operation: str,
        request: Data | None = None,
        live: Callable[[], AsyncIterator[Any]] | None = None,
        *,
        capability: str = "net.stream",
        source: str | None = None,
    ) -> AsyncIterator[Any]:
        """Async variant of :meth:`.Session.stream`; ``live`` returns an asynchronous iterator."""
        call = make_explicit_call(operation, request, capability, source, streams=True)
        return streams.stream_async(self._session, call, live or _not_live(operation))

    async def record_event(self, kind: str, data: Data) -> None:
        """See :meth:`.Session.record_event`."""
        self._session.explicit.record_event(kind, data)

    async def record_nondeterministic(self, source: str, key: str, value: Any) -> None:
        """See :meth:`.Session.record_nondeterministic`."""
        self._session.explicit.record_nondeterministic(source, key, value)

    async def next_nondeterministic(self, source: str, key: str) -> Any:
        """See :meth:`.Session.next_nondeterministic`."""
        return self._session.explicit.next_nondeterministic(source, key)

    async def replay_llm_request(self, request: Data) -> Data:
        """See :meth:`.Session.replay_llm_request`."""
        return await self._session.explicit.replay_async("llm_request", request)

    async def replay_tool_call(self, request: Data) -> Data:
        """See :meth:`.Session.replay_tool_call`."""
        return await self._session.explicit.replay_async("tool_call", request)

    async def replay_nondeterministic(self, request: Data) -> Data:
        """See :meth:`.Session.replay_nondeterministic`."""
        return self._session.explicit.replay_nondeterministic(request)


def make_explicit_call(
    operation: str,
    request: Data | None,
    capability: str,
    source: str | None,
    *,
    streams: bool = False,
) -> Call:
    """Return the call for the arguments of :meth:`.Session.call`."""
    content: Data = copy_value(request or {})
    if capability == "tool.call" and source is None and not streams:
        return Call(
            type="tool_call",
            capability=capability,
            operation=operation,
            request={"name": operation, "args": content},
            nests=True,
        )
    return Call(
        type="nondeterministic",
        capability=capability,
        operation=operation,
        request=content,
        source=source or SOURCES.get(capability, capability),
    )


def _stated_call(kind: str, data: Data) -> Call:
    """Return the call that a single explicit event describes."""
    source = str(data.get("source", "")) if kind == "nondeterministic" else ""
    if kind == "nondeterministic" and "request" not in data:
        return draw_call(source, str(data["key"]), observed=True)
    return Call(
        type=kind,  # type: ignore[arg-type]
        capability=CAPABILITIES.get(source, source) if source else "fs.write",
        operation=str(data.get("op", "")),
        request=data.get("request", {}) if kind == "nondeterministic" else data,
        source=source,
        instant=True,
        observed=True,
    )


def _pair_call(
    kind: str,
    capability: str,
    request: Data,
    *,
    instant: bool = False,
    returns_failure: bool = False,
) -> Call:
    needed = ("name", "args") if kind == "tool_call" else ("provider", "model")
    _check_fields(request, needed)
    content: Data = copy_value(request)
    call_id = content.pop("callId", "")
    if kind == "tool_call":
        operation = str(content["name"])
        compared = set(needed)
    else:
        operation = f"{content['provider']}/{content['model']}"
        compared = content.keys() - BOOKKEEPING
    extra = {name: content.pop(name) for name in content.keys() - compared}
    return Call(
        type=kind,  # type: ignore[arg-type]
        capability=capability,
        operation=operation,
        request=content,
        call_id=str(call_id),
        extra=extra,
        instant=instant,
        returns_failure=returns_failure,
    )


def _not_live(operation: str) -> Callable[[], Any]:
    def refuse() -> Any:
        raise UsageError(
            f"there is nothing to call for {operation}", hint="give live=, or replay a recording"
        )

    return refuse


def _check_replays(session: ExplicitSession, method: str) -> None:
    if session.mode not in READING_MODES:
        raise UsageError(
            f"{method} needs a recording, and the mode {session.mode} reads none",
            hint="ask session.mode first: make the call and record it, or replay it",
        )


def _check_fields(request: Data, names: tuple[str, ...]) -> None:
    if not isinstance(request, dict):
        raise UsageError("the request is not a dict", hint=f"it needs {', '.join(names)}")
    for name in names:
        if name not in request:
            raise UsageError(f"the request has no {name!r}", hint=f"it needs {', '.join(names)}")


def _check_event(kind: str, data: Data) -> None:
    if kind not in TYPES:
        raise UsageError(f"{kind!r} is not an event type", hint=did_you_mean(kind, TYPES))
    payloads.PAYLOADS[kind].from_data(
        data
    )  # refuses what would not verify: a minimum field is missing


class _PairedEvents:
    """Events that a program records by hand, each closing one with the opening it belongs to."""

    def __init__(self, session: ExplicitSession) -> None:
        self._session = session
        self._opened: defaultdict[tuple[str, str], list[InFlightCall | Entry]] = defaultdict(list)

    def open(self, kind: str, data: Data) -> None:
        session = self._session
        if kind in PAIRS:
            call = _pair_call(kind, _PAIR_CAPABILITIES[kind], data)
            decision, opened = session.decisions.decide(call, blocks=False)
            served = session.gateway.observe(decision, opened)
            name = (opened.lane.name, call.call_id or kind)
            with session.lock:
                self._opened[name].append(opened if served is None else served)
            return
        call = _stated_call(kind, data)
        if kind in _MARKS:
            session.reporter.observe_mark(call)
        else:
            session.gateway.call(call, lambda: data, _STATED)

    def close(self, kind: str, data: Data) -> None:
        session = self._session
        lane = session.lanes.current().name
        names = [(lane, str(data.get("callId", ""))), (lane, _CLOSINGS[kind])]
        with session.lock:
            found = next((self._opened[name] for name in names if self._opened.get(name)), None)
            opened = found.pop(0) if found else None
        if opened is None:
            raise UsageError(
                f"there is no open {_CLOSINGS[kind]} in lane {lane} that this {kind} belongs to",
                hint=f"record the {_CLOSINGS[kind]} first, in the same task or thread",
            )
        if isinstance(opened, Entry):
            session.reporter.observe_closing(opened, kind, data)
        else:
            session.gateway.close(opened, data)
