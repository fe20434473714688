"""Progress is that of a call, whatever number its request has."""

from __future__ import annotations

from typing import Any

from reenact.boundaries.mcp.messages import Tokens
from reenact.engine.call import Call, GoLive
from reenact.engine.lanes import Lane
from reenact.engine.recording.recorder import InFlightCall
from reenact.format.event import Data

CALL = Call(type="tool_call", capability="tool.call", operation="add", request={})


def _tokens(number: Any, lane: str, position: int) -> Tokens:
    tokens = Tokens()
    tokens.note(number, GoLive(), InFlightCall(CALL, "", Lane(lane), position))
    return tokens


def _progress(token: Any) -> Data:
    params: Data = {"progressToken": token, "progress": 1}
    return {"method": "notifications/progress", "params": params}


def test_a_number_becomes_a_place_and_another_number() -> None:
    placed = _tokens(7, "0.1", 3).placed(_progress(7))
    assert placed == _progress("0.1#3")
    assert _tokens(9, "0.1", 3).numbered(placed) == _progress(9)


def test_a_token_of_the_programs_own_stays() -> None:
    tokens = _tokens(7, "0", 0)
    assert tokens.placed(_progress("mine")) == _progress("mine")
    assert tokens.numbered(_progress("mine")) == _progress("mine")


def test_what_is_no_progress_stays() -> None:
    tokens = _tokens(7, "0", 0)
    for piece in (
        {"method": "notifications/message", "params": {"progressToken": 7}},
        {"method": "notifications/progress"},
        {"id": 7, "method": "ping"},
        {"method": "notifications/progress", "params": {"progressToken": [7]}},
        {"stderr": "7"},
    ):
        assert tokens.placed(piece) == piece


def test_an_answer_that_comes_too_late_is_that_of_its_call() -> None:
    placed = _tokens(7, "0", 2).placed({"id": 7, "result": {}})
    assert placed == {"id": "0#2", "result": {}}
    assert _tokens(8, "0", 2).numbered(placed) == {"id": 8, "result": {}}
    assert _tokens(8, "0", 2).placed({"id": 7, "result": {}}) == {"id": 7, "result": {}}
