"""What servers and their tools are called in a recording."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from weakref import WeakKeyDictionary

from reenact.engine.session.session import Session
from reenact.format.canonical import canonical
from reenact.format.event import Data

__all__ = ["Server", "server_of"]

_STAMP = "io.modelcontextprotocol/serverInfo"


class _Known:
    """The servers of one session, by what they call themselves, and who has which tool."""

    def __init__(self) -> None:
        self.places: defaultdict[str, list[bytes]] = defaultdict(list)
        self.owners: defaultdict[str, set[str]] = defaultdict(set)


_known: WeakKeyDictionary[Session, _Known] = WeakKeyDictionary()


class Server:
    """One server that the program talks to. ``label`` is empty until it has said who it is."""

    def __init__(self, known: _Known, place: bytes) -> None:
        self.label = ""
        self._known = known
        self._place = place

    def heard(self, method: str, result: Any) -> None:
        """It has answered ``method``."""
        if not isinstance(result, dict):
            return
        if method in ("initialize", "server/discover"):
            self._introduce(_own_name(result))
        elif method == "tools/list":
            for tool in result.get("tools") or ():
                if isinstance(tool, dict):
                    self._known.owners[str(tool.get("name"))].add(self.label)

    def name_of(self, tool: str) -> str:
        """``tool``, or ``server/tool`` where another server has a tool of that name."""
        if not self.label:
            return tool
        owners = self._known.owners[tool]
        owners.add(self.label)
        return f"{self.label}/{tool}" if len(owners) > 1 else tool

    def _introduce(self, name: str) -> None:
        """Another server that calls itself the same is ``name#2``; the same one again is not."""
        if not name:
            return
        places = self._known.places[name]
        if self._place not in places:
            places.append(self._place)
        number = places.index(self._place) + 1
        self.label = name if number == 1 else f"{name}#{number}"


def _own_name(result: Data) -> str:
    meta = result.get("_meta")
    info = result.get("serverInfo") or (meta.get(_STAMP) if isinstance(meta, dict) else None)
    name = info.get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else ""


def server_of(session: Session, request: Data) -> Server:
    """The server that is reached by ``request``, which says how to connect to it."""
    with session.lock:
        known = _known.setdefault(session, _Known())
    return Server(known, canonical(request))
