"""Transports of the official MCP SDK, versions 1 and 2, which give all clients their streams."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType, TracebackType
from typing import Any, Self

import anyio

from reenact.boundaries.function_patches import InsidePatch
from reenact.boundaries.http.urls import normal_url
from reenact.boundaries.mcp.client_connection import Link
from reenact.boundaries.mcp.server_connection import Said, descriptor_of
from reenact.boundaries.processes.popen import process_call
from reenact.engine.call import CAPABILITIES, Call
from reenact.engine.lanes import running_loop
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError
from reenact.format.event import Data

__all__ = [
    "WriteEnd",
    "http_call",
    "http_patches",
    "sse_patches",
    "stdio_call",
    "stdio_patches",
]


def stdio_call(given: Mapping[str, Any]) -> Call:
    """Return the call that starts a server process: its command line, its folder, and the names of
    its environment variables."""
    server = given["server"]
    asked = process_call(
        [server.command, *server.args],
        shell=False,
        executable=None,
        cwd=server.cwd,
        environ=None,
        own={},
    )
    request: Data = {"transport": "stdio", **asked.request}
    if server.env:
        request["env"] = sorted(server.env)
    return _connect(request)


def http_call(given: Mapping[str, Any]) -> Call:
    """Return the call for a connection by URL.

    Headers are not compared, because they identify the client.
    """
    url = str(given["url"])
    return _connect({"transport": "http", "url": normal_url(url)}, "POST", url)


def _connect(request: Data, method: str = "", url: str = "") -> Call:
    return Call(
        type="nondeterministic",
        capability=CAPABILITIES["mcp"],
        source="mcp",
        operation="connect",
        request=request,
        method=method,
        url=url,
    )


class WriteEnd:
    """Looks like the sending half of a stream in memory, which is what transports give."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._closed = False

    async def send(self, item: Any) -> None:
        """Send a message. Raises :class:`anyio.ClosedResourceError` after the end."""
        if self._closed or self._link.is_closed:
            raise anyio.ClosedResourceError
        await self._link.send(item)

    def close(self) -> None:
        self._closed = True

    async def aclose(self) -> None:
        self.close()

    def clone(self) -> Self:
        """Return another end of the same connection."""
        return type(self)(self._link)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


Describe = Callable[[Mapping[str, Any]], Call]
Generate = Callable[..., AsyncIterator[Any]]


def stdio_patches(library: ModuleType) -> list[InsidePatch]:
    """Return the patches of ``mcp.client.stdio``."""
    return _patches(library, ("stdio_client",), stdio_call, ends=2)


def http_patches(library: ModuleType) -> list[InsidePatch]:
    """Return the patches of ``mcp.client.streamable_http``."""
    ends = 2 if hasattr(library, "TransportStreams") else 3  # major 1 also returns the session id
    return _patches(library, ("streamable_http_client", "streamablehttp_client"), http_call, ends)


def sse_patches(library: ModuleType) -> list[InsidePatch]:
    """Return the patches of ``mcp.client.sse``."""
    return _patches(library, ("sse_client",), http_call, ends=2)


def _patches(
    library: ModuleType, names: tuple[str, ...], describe: Describe, ends: int
) -> list[InsidePatch]:
    def wrap(original: Generate) -> Generate:
        return _covered(original, describe, ends)

    return [InsidePatch(library, name, wrap) for name in names if hasattr(library, name)]


def _covered(original: Generate, describe: Describe, ends: int) -> Generate:
    open_really = asynccontextmanager(original)
    signature = inspect.signature(original)

    async def connected(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        session = current()
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        call = describe(bound.arguments)
        if session is None or not _is_covered(session, call):
            async with open_really(*args, **kwargs) as streams:
                yield streams
            return
        errors = descriptor_of(bound.arguments.get("errlog"))

        def transport(said: Said) -> AbstractAsyncContextManager[Any]:
            if errors is not None:
                bound.arguments["errlog"] = said.pipe()
            return open_really(*bound.args, **bound.kwargs)

        link = Link(session, call, transport, errors)
        async with _opened(link):
            yield (link.reads, WriteEnd(link), lambda: link.session_id)[:ends]

    return connected


def _is_covered(session: Session, call: Call) -> bool:
    """Return whether the session records MCP calls here.

    It does not if only the network is recorded, or outside asyncio loops. The underlying processes and requests are recorded instead.
    """
    return session.is_active and session.machine.covers(call) and running_loop() is not None


@asynccontextmanager
async def _opened(link: Link) -> AsyncIterator[None]:
    """Keep the link open while the program uses the server.

    Errors are raised in a group, as by every transport.
    """
    decision, opened = await link.open()
    try:
        async with anyio.create_task_group() as tasks:
            link.start(tasks, decision, opened)
            try:
                yield
            finally:
                link.close()
        await link.release()
    except BaseExceptionGroup as group:
        found: BaseException | None = _divergence(group)
        if found is None and group.exceptions == (link.failure,):
            found = link.failure  # a group already
        if found is None:
            raise
        raise found from None


def _divergence(error: BaseException) -> DivergenceError | None:
    """Find a divergence in a group, because it must not be hidden there."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_divergence, error.exceptions)), None)
    return error if isinstance(error, DivergenceError) else None
