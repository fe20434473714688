"""aiohttp: every exchange of a client session, one by one, and its websockets.

The seam is the connector: where aiohttp asks it for a connection it gets one that leads nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from operator import attrgetter
from types import ModuleType
from typing import Any

from reenact.engine.current import OUTSIDE, current, enter, leave
from reenact.engine.desk import Desk
from reenact.engine.lanes import running_loop
from reenact.engine.patches import Patch
from reenact.engine.spawning import stay
from reenact.errors import UsageError

__all__ = ["seams"]

_INSIDE = (
    "client.ClientSession._ws_connect",
    "client_proto.ResponseHandler.set_response_params",
    "client_reqrep.ClientRequest.write_bytes",
    "connector.BaseConnector.close",
    "connector.BaseConnector.connect",
    "streams.StreamReader._wait",
)
"""What we replace or rely on that is not for everybody."""


def seams(library: ModuleType) -> list[Patch]:
    """The patches of aiohttp. A version that is built differently is refused when it is used."""
    try:
        _check(library)
        from reenact.boundaries.aiohttp_hop import Hop
        from reenact.boundaries.aiohttp_standin import connected
        from reenact.boundaries.ws_aiohttp import Dial, WsHop, dialling
    except ImportError as error:
        return [Patch(library.ClientSession, "_request", _refusing(library, error))]

    def connecting(original: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(session: Any, connector: Any, req: Any, traces: Any, timeout: Any) -> Any:
            if req.proxy:
                _authorize(connector, req)
            dial = dialling.get() if "Sec-WebSocket-Key" in req.headers else None
            if dial is None:
                hop = Hop(session, connector, original, req, timeout)
            else:
                hop = WsHop(dial, session, connector, original, req, timeout)
            return connected(connector, hop, req, traces)

        def connect(self: Any, req: Any, traces: Any, timeout: Any) -> Any:
            session = current()
            if session is None or session.mode == "off":
                return original(self, req, traces=traces, timeout=timeout)
            return stand_in(session, self, req, traces, timeout)

        return connect

    def dialled(original: Callable[..., Any]) -> Callable[..., Any]:
        def ws_connect(self: Any, url: Any, **kwargs: Any) -> Any:
            session = current()
            if session is None or session.mode == "off":
                return original(self, url, **kwargs)
            return Dial(session, self, original, kwargs).open(url)

        return ws_connect

    connector = library.connector.BaseConnector
    return [
        Patch(connector, "connect", connecting),
        Patch(connector, "close", _closing),
        Patch(library.ClientSession, "_ws_connect", dialled),
        Patch(library.ClientRequest, "write_bytes", _uploading),
    ]


def _check(library: ModuleType) -> None:
    """Raises :class:`ImportError` for a version whose inside we do not know."""
    if not library.__version__.startswith("3."):
        raise ImportError("its connections are made in another way")
    for path in _INSIDE:
        try:
            attrgetter(path)(library)
        except AttributeError:
            raise ImportError(f"it has no {path}") from None


def _authorize(connector: Any, request: Any) -> None:
    """The connector of aiohttp does this when it connects to a proxy, before the request is sent."""
    add = getattr(connector, "_update_proxy_auth_header_and_build_proxy_req", None)
    if add is not None:
        add(request)
    elif request.proxy_auth is not None and not request.is_ssl():  # 3.12
        request.headers["Proxy-Authorization"] = request.proxy_auth.encode()


def _uploading(original: Callable[..., Any]) -> Callable[..., Any]:
    """aiohttp sends the body of a request in a task, and its caller waits for that in the same
    lane: another client takes no task for it."""

    def write_bytes(self: Any, *args: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(self, *args)
        return stay(session, original, self, *args)

    return write_bytes


def _closing(original: Callable[..., Any]) -> Callable[..., Any]:
    def close(self: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off" or running_loop() is None:
            return original(self, **kwargs)
        token = enter(OUTSIDE)
        try:
            closing = original(self, **kwargs)
        finally:
            leave(token)
        return _Held(closing, session.running_desk())

    return close


class _Held:
    """Waits for ``awaitable``; nothing is delivered meanwhile, because a replay does not wait."""

    def __init__(self, awaitable: Any, desk: Desk) -> None:
        self._awaitable = awaitable
        self._desk = desk

    def __await__(self) -> Generator[Any, None, Any]:
        self._desk.unwinding += 1
        try:
            return (yield from self._awaitable.__await__())
        finally:
            self._desk.unwinding -= 1


def _refusing(
    library: ModuleType, error: ImportError
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def request(self: Any, *args: Any, **kwargs: Any) -> Any:
            session = current()
            if session is None or session.mode == "off":
                return original(self, *args, **kwargs)
            raise UsageError(
                f"aiohttp {library.__version__} is built in a way that Reenact does not know: "
                f"{error}",
                hint="use aiohttp 3.12 or a later 3, or a newer Reenact",
            )

        return request

    return wrap
