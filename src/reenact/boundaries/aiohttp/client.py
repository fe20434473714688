"""Patches of aiohttp's connector and client session."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import ModuleType
from typing import Any

from reenact.boundaries.aiohttp.exchange import Hop, connected
from reenact.boundaries.aiohttp.websocket import Dial, WsHop, dialling
from reenact.engine.lanes import running_loop
from reenact.engine.patches.event_loop import run_in_caller_lane
from reenact.engine.patches.patch import Patch
from reenact.engine.scheduling.loop_scheduler import LoopScheduler
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = ["connector_patches"]


def connector_patches(library: ModuleType) -> list[Patch]:
    """Return the patches for a supported version of aiohttp."""
    connector = library.connector.BaseConnector
    return [
        Patch(connector, "connect", _connecting),
        Patch(connector, "close", _closing),
        Patch(library.ClientSession, "_ws_connect", _dialling),
        Patch(library.ClientRequest, "write_bytes", _uploading),
    ]


def _connecting(original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(self: Any, req: Any, traces: Any, timeout: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(self, req, traces=traces, timeout=timeout)
        if req.proxy:
            _authorize(self, req)
        return connected(self, _hop(session, self, original, req, timeout), req, traces)

    return connect


def _hop(session: Session, connector: Any, connect: Any, request: Any, timeout: Any) -> Hop:
    dial = dialling.get() if "Sec-WebSocket-Key" in request.headers else None
    if dial is None:
        return Hop(session, connector, connect, request, timeout)
    return WsHop(dial, session, connector, connect, request, timeout)


def _authorize(connector: Any, request: Any) -> None:
    """Add the proxy authorization, as aiohttp's connector does when it connects to a proxy."""
    add = getattr(connector, "_update_proxy_auth_header_and_build_proxy_req", None)
    if add is not None:
        add(request)
    elif request.proxy_auth is not None and not request.is_ssl():  # 3.12
        request.headers["Proxy-Authorization"] = request.proxy_auth.encode()


def _dialling(original: Callable[..., Any]) -> Callable[..., Any]:
    def ws_connect(self: Any, url: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(self, url, **kwargs)
        return Dial(session, self, original, kwargs).open(url)

    return ws_connect


def _uploading(original: Callable[..., Any]) -> Callable[..., Any]:
    """Run the upload task of a request in the lane of its caller, because other clients do not use
    a task for it."""

    def write_bytes(self: Any, *args: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(self, *args)
        return run_in_caller_lane(session, original, self, *args)

    return write_bytes


def _closing(original: Callable[..., Any]) -> Callable[..., Any]:
    def close(self: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off" or running_loop() is None:
            return original(self, **kwargs)
        token = enter_session(OUTSIDE)
        try:
            closing = original(self, **kwargs)
        finally:
            leave_session(token)
        return _Held(closing, session.running_loop_scheduler())

    return close


class _Held:
    """Waits for ``awaitable``; nothing is delivered meanwhile, because a replay does not wait."""

    def __init__(self, awaitable: Any, desk: LoopScheduler) -> None:
        self._awaitable = awaitable
        self._desk = desk

    def __await__(self) -> Generator[Any, None, Any]:
        self._desk.unwinding += 1
        try:
            return (yield from self._awaitable.__await__())
        finally:
            self._desk.unwinding -= 1
