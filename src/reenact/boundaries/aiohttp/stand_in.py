"""A connection of aiohttp that leads nowhere, and what a pool says of such."""

from __future__ import annotations

from asyncio import Transport
from collections import Counter
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp.connector import BaseConnector, Connection

from reenact._system import monotonic
from reenact.boundaries.http1 import Outgoing

__all__ = ["Nowhere", "StandIn", "connected"]

_idle: WeakKeyDictionary[BaseConnector, Counter[Any]] = WeakKeyDictionary()
"""How many connections to each place would be waiting to be used again."""


async def connected(connector: BaseConnector, hop: Any, request: Any, traces: Any) -> StandIn:
    """A connection for ``request``. Who traces connections is told what a pool would tell."""
    key = request.connection_key
    idle = _idle.setdefault(connector, Counter())
    if idle[key]:
        idle[key] -= 1
        for trace in traces:
            await trace.send_connection_reuseconn()
    else:
        for trace in traces:
            await trace.send_connection_create_start()
        for trace in traces:
            await trace.send_connection_create_end()
    return StandIn(connector, key, hop, connector._loop)


class StandIn(Connection):
    """What the response of a hop holds. It takes no place in the pool while it is in use."""

    def close(self) -> None:
        self._notify_release()
        hop, self._protocol = self._protocol, None
        if hop is not None:
            hop.close()

    def __del__(self, *args: Any) -> None:
        hop: Any = self._protocol
        if hop is not None and hop.has_diverged:
            return  # what would have closed it raised the divergence once more
        super().__del__(*args)

    def release(self) -> None:
        hop: Any = self._protocol
        reusable = hop is not None and hop.is_reusable() and not self._connector.force_close
        self.close()
        if reusable:
            self._put_back(hop)

    def _put_back(self, hop: Any) -> None:
        connector, key = self._connector, self._key
        _idle.setdefault(connector, Counter())[key] += 1
        if not hop.was_live and not connector.closed and not connector._conns.get(key):
            # A connector complains when it is forgotten while it has connections. This one is
            # dead; it would be thrown away if it were taken out.
            connector._conns[key].append((hop, monotonic()))


class Nowhere(Transport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = Outgoing()

    def write(self, data: Any) -> None:
        self.sent.add(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        for data in list_of_data:
            self.sent.add(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        pass

    abort = close
