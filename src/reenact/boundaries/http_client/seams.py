"""http.client, and with it urllib.request and whatever else is made of it.

A connection gets a socket of ours, so that nothing is connected but by the live half of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from reenact.boundaries.http_client.stand_in import StandIn
from reenact.engine.patches.patch import Installable, Patch
from reenact.engine.session.current import current

__all__ = ["seams"]


def seams(library: ModuleType) -> list[Installable]:
    """The patches of ``http.client``."""
    return [
        Patch(library.HTTPConnection, "send", _sending),
        Patch(library.HTTPConnection, "connect", _connecting),
        _Heirs(library.HTTPConnection),
    ]


def _sending(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(conn: Any, data: Any) -> Any:
        sock, session = conn.sock, current()
        if session is None or session.mode == "off":
            if isinstance(sock, StandIn):
                conn.sock = sock.real
        elif not isinstance(sock, StandIn) and (sock is not None or conn.auto_open):
            conn.sock = StandIn(conn, sock)
        return original(conn, data)

    return send


def _connecting(original: Callable[..., Any]) -> Callable[..., Any]:
    def connect(conn: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(conn)
        conn.sock = StandIn(conn)
        return None

    return connect


class _Heirs:
    """The ways in which the classes made of ``base`` connect, those included that are made later."""

    def __init__(self, base: Any) -> None:
        self._base = base
        self._patches: list[Patch] = []

    def install(self) -> None:
        def init_subclass(heir: type[Any], **kwargs: Any) -> None:
            super(self._base, heir).__init_subclass__(**kwargs)
            self._cover(heir)

        for heir in _heirs(self._base):
            self._cover(heir)
        self._base.__init_subclass__ = classmethod(init_subclass)  # type: ignore[arg-type]

    def _cover(self, heir: type[Any]) -> None:
        if "connect" in vars(heir):
            patch = Patch(heir, "connect", _connecting)
            patch.install()
            self._patches.append(patch)

    def remove(self) -> None:
        del self._base.__init_subclass__
        for patch in reversed(self._patches):
            patch.remove()
        self._patches = []


def _heirs(base: type[Any]) -> Iterator[type[Any]]:
    for heir in base.__subclasses__():
        yield heir
        yield from _heirs(heir)
