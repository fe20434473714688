"""How results of tools are kept: by value, and given back as the annotations say."""

from __future__ import annotations

from typing import Any

from reenact.engine.call import Call
from reenact.engine.codecs import PartialResponse, PlainCodec, PlainStreamCodec, copy_value
from reenact.format.canonical import exact
from reenact.format.event import Data
from reenact.policy.screen import Screen
from reenact.tools.values import Kind

__all__ = ["Answers", "Items"]


class Answers(PlainCodec):
    """The result of a call."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def dump(self, call: Call, result: Any) -> Data:
        return super().dump(call, self._kind.plain(result, ("result",)))

    def load(self, call: Call, data: Data) -> Any:
        return self._kind.typed(super().load(call, data))


class Items(PlainStreamCodec):
    """What a generator yields, and what it returns at its end."""

    def __init__(self, item: Kind, returned: Kind) -> None:
        self._item = item
        self._returned = returned

    def admit(self, piece: Any) -> Any:
        return self._item.typed(self._plain(piece))

    def size(self, piece: Any) -> int:
        return len(exact(self._plain(piece)))

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        plain = list(map(self._plain, pieces))
        return super().dump(plain, self._returned.plain(returned, ("returned",)))

    def load(self, response: Any) -> list[Any]:
        return list(map(self._item.typed, super().load(response)))

    def growth(self, screen: Screen) -> PartialResponse:
        return _Growing(super().growth(screen), self._item)

    def _plain(self, piece: Any) -> Any:
        return copy_value(self._item.plain(piece, ("item",)))


class _Growing:
    def __init__(self, growth: PartialResponse, item: Kind) -> None:
        self._growth = growth
        self._item = item

    def add(self, piece: Any) -> Any:
        return self._growth.add(copy_value(self._item.plain(piece, ("item",))))
