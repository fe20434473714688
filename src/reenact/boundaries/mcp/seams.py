"""The transports of the official SDK, majors 1 and 2: where all its clients get their streams.

Replaced is what makes a transport. Everything above (``ClientSession``, the clients of agent
frameworks) runs as it is, while recording and in a replay; everything below is in no session.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import ModuleType
from typing import Any

import anyio

from reenact.boundaries.mcp.ends import WriteEnd
from reenact.boundaries.mcp.inside import InsidePatch
from reenact.boundaries.mcp.link import Link
from reenact.boundaries.mcp.places import http_call, stdio_call
from reenact.boundaries.mcp.said import Said, descriptor_of
from reenact.engine.call import Call
from reenact.engine.lanes import running_loop
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import DivergenceError

__all__ = ["http_seams", "sse_seams", "stdio_seams"]

Describe = Callable[[Mapping[str, Any]], Call]
Generate = Callable[..., AsyncIterator[Any]]


def stdio_seams(library: ModuleType) -> list[InsidePatch]:
    """The patches of ``mcp.client.stdio``."""
    return _patches(library, ("stdio_client",), stdio_call, ends=2)


def http_seams(library: ModuleType) -> list[InsidePatch]:
    """The patches of ``mcp.client.streamable_http``."""
    ends = 2 if hasattr(library, "TransportStreams") else 3  # major 1 also tells the session's id
    return _patches(library, ("streamable_http_client", "streamablehttp_client"), http_call, ends)


def sse_seams(library: ModuleType) -> list[InsidePatch]:
    """The patches of ``mcp.client.sse``."""
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
    """Not where only the network is recorded, nor on another loop than asyncio's: there the
    processes and requests beneath are what is seen."""
    return session.is_active and session.machine.covers(call) and running_loop() is not None


@asynccontextmanager
async def _opened(link: Link) -> AsyncIterator[None]:
    """As long as the program talks to the server. What it raises comes out in a group, as it does
    from every transport."""
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
    """What ended a replay is not hidden in a group."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_divergence, error.exceptions)), None)
    return error if isinstance(error, DivergenceError) else None
