"""Which request a message is about: a number now, a place in the recording for good.

Progress is about one, and so is an answer that comes when nobody waits for it any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.boundaries.mcp.dialects import is_answer
from reenact.engine.call import Decision, Reexecute, Serve
from reenact.engine.recording.recorder import InFlightCall
from reenact.format.event import Data

__all__ = ["Tokens"]


class Tokens:
    """The requests of one connection. Their numbers are another ones in an edited program."""

    def __init__(self) -> None:
        self._numbers: dict[Any, Any] = {}
        self._places: dict[Any, Any] = {}

    def note(self, number: Any, decision: Decision, opened: InFlightCall) -> None:
        """The request ``number`` is the call ``opened``."""
        lane, position = opened.lane.name, opened.position
        if isinstance(decision, Serve | Reexecute):
            lane, position = decision.entry.lane, decision.entry.position
        place = f"{lane}#{position}"
        self._numbers[place], self._places[number] = number, place

    def placed(self, piece: Data) -> Data:
        """What came, as it is recorded."""
        return _replaced(piece, self._places)

    def numbered(self, piece: Data) -> Data:
        """What was recorded, as the program gets it."""
        return _replaced(piece, self._numbers)


def _replaced(piece: Data, known: Mapping[Any, Any]) -> Data:
    if is_answer(piece):
        return {**piece, "id": _known(piece["id"], known)}
    params = piece.get("params")
    if piece.get("method") != "notifications/progress" or not isinstance(params, dict):
        return piece
    token = _known(params.get("progressToken"), known)
    return {**piece, "params": {**params, "progressToken": token}}


def _known(token: Any, known: Mapping[Any, Any]) -> Any:
    return known.get(token, token) if isinstance(token, str | int) else token
