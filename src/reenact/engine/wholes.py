"""Answers that come in pieces, kept as one: the program got all of them at once."""

from __future__ import annotations

from typing import Any

from reenact._system import monotonic
from reenact.engine.answers import StreamCodec, Whole
from reenact.engine.call import Call
from reenact.format.event import Data

__all__ = ["WholeCodec"]


class WholeCodec:
    """Keeps an answer as one value: the response, and under ``broken`` what broke it off.

    Made when the call begins, so that it knows how long it took.
    """

    def __init__(self, codec: StreamCodec) -> None:
        self._codec = codec
        self._began = monotonic()

    def dump(self, call: Call, result: Whole) -> Data:
        pieces = [self._codec.admit(piece) for piece in result.pieces]
        data: Data = {"response": self._codec.dump(pieces, None)}
        if result.error is not None:
            data["broken"] = self._codec.dump_error(call, result.error)
        if self._codec.timed:
            data["timing"] = {"offsets": [int((monotonic() - self._began) * 1e3)]}
        return data

    def load(self, call: Call, data: Data) -> Whole:
        broken = data.get("broken")
        error = None if broken is None else self._codec.load_error(call, broken)
        return Whole(self._codec.load(data.get("response")), error)

    def returned(self, call: Call, result: Whole, data: Data) -> Whole:
        return result

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return self._codec.dump_error(call, error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return self._codec.load_error(call, data)
