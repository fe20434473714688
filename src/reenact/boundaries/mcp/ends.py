"""The end of a connection that the program writes to."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import anyio

from reenact.boundaries.mcp.link import Link

__all__ = ["WriteEnd"]


class WriteEnd:
    """Looks like the sending half of a stream in memory, which is what transports give."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._closed = False

    async def send(self, item: Any) -> None:
        """Raises :class:`anyio.ClosedResourceError` after the end."""
        if self._closed or self._link.is_closed:
            raise anyio.ClosedResourceError
        await self._link.send(item)

    def close(self) -> None:
        self._closed = True

    async def aclose(self) -> None:
        self.close()

    def clone(self) -> Self:
        """Another end of the same connection."""
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
