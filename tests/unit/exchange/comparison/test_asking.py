"""Divergences as an agent may send them: whatever they hold, the calls stay what they are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reenact.exchange.comparison.calls import as_asked
from reenact.exchange.comparison.compare import compare
from reenact.exchange.model import ReplayOf
from tests.unit.exchange.comparison.samples import call, exchange, step

URL = "https://a.example/x"
CALLS = (
    call(1, request={"url": URL, "method": "GET", "n": 1}, name="GET"),
    call(2, "search", request={"args": {"q": "tea"}}, name="search", kind="tool"),
)


def _seen(data: Any, operation: str = "network GET", type: str = "nondeterministic") -> Any:
    return {"type": type, "operation": operation, "lane": "0", "data": data}


def _event(data: Any) -> Any:
    envelope = {"version": 1, "captureId": "c", "runId": "r", "seq": 1, "ts": 1}
    return {**envelope, **_seen(data)}


def _divergence(**more: Any) -> dict[str, Any]:
    asked = {"source": "network", "op": "GET", "request": {"url": URL, "method": "GET", "n": 2}}
    gap = {
        "path": "$.request.n",
        "jsonPath": "$['request']['n']",
        "kind": "changed",
        "expected": 1,
        "observed": 2,
    }
    return {
        "version": 1,
        "code": "event_payload_mismatch",
        "detail": "It differs.",
        "lane": "0",
        "observed": _seen(asked),
        "eventSeq": 1,
        "paths": [gap],
        **more,
    }


def _asked(*divergences: dict[str, Any], strict: bool = False) -> Any:
    return as_asked(
        CALLS,
        ReplayOf(replay_id="r", source_exchange_id="s", strict=strict, divergences=divergences),
    )


def test_which_recorded_call_has_answered_is_told() -> None:
    calls = tuple(
        call(seq, request={"url": URL, "method": "GET", "n": seq}, name="GET") for seq in (1, 3, 5)
    )
    told = _divergence(expected=_event({"request": calls[0].request}), served=5)
    found = as_asked(calls, ReplayOf(replay_id="r", source_exchange_id="s", divergences=(told,)))
    assert [one.answered_by for one in found.calls if one.answered_by] == [5]
    assert found.calls[2].asked == {"url": URL, "method": "GET", "n": 2}


def test_what_was_asked_is_put_beside_what_is_recorded() -> None:
    found = _asked(_divergence())
    assert found.answers == ("recorded",)
    assert found.calls[0].asked == {"url": URL, "method": "GET", "n": 2}
    assert found.calls[0].request == CALLS[0].request
    assert found.calls[1] == CALLS[1]


def test_a_tool_is_known_by_its_name() -> None:
    seen = _seen({"name": "search", "args": {"q": "coffee"}}, "search", "tool_call")
    gap = {
        "path": "$.args.q",
        "jsonPath": "$['args']['q']",
        "kind": "changed",
        "expected": "tea",
        "observed": "coffee",
    }
    found = _asked(_divergence(observed=seen, eventSeq=2, paths=[gap]))
    assert found.calls[1].asked == {"args": {"q": "coffee"}}


def test_a_strict_replay_serves_nothing_that_differs() -> None:
    found = _asked(_divergence(), strict=True)
    assert found.answers == ("refused",)
    assert found.calls[:2] == CALLS
    assert (found.calls[2].refused, found.calls[2].operation) == (True, f"GET {URL}")


def test_one_recorded_call_answers_one_call() -> None:
    assert _asked(_divergence(), _divergence()).answers == ("recorded", "refused")


def test_a_refused_call_is_in_the_step_that_failed_with_it() -> None:
    """Ranges of processors count it, though it is not in the recording."""
    steps = (
        step("items", 1, lane="0", first_call=0, end_call=4, status="failed"),
        step("stock", 2, 1, lane="0", first_call=0, end_call=3),
        step("reserve", 3, 1, lane="0", first_call=3, end_call=4, status="failed"),
        step("elsewhere", 4, lane="0.1", first_call=0, end_call=9, status="failed"),
        step("later", 5, lane="0", first_call=4, end_call=4, status="failed"),
    )
    replay = ReplayOf(
        replay_id="r",
        source_exchange_id="s",
        divergences=(_divergence(code="event_unexpected"),),
    )
    found = as_asked(CALLS, replay, steps)
    assert [(one.refused, one.processor_seq) for one in found.calls[2:]] == [(True, 3)]
    unhurt = [msgspec.structs.replace(one, status="completed") for one in steps]
    assert as_asked(CALLS, replay, unhurt).calls[2].processor_seq == 0


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"code": "no such code"},
        {"code": "event_missing"},
        {"observed": None},
        {"observed": _seen({"source": "clock", "key": "time"}, "clock time")},
        {"observed": _seen({}, "", "tool_result")},
        {"lane": 7},
        {"paths": "none"},
        {
            "nearest": [
                {"seq": 9, "lane": "0", "operation": "", "score": 1, "paths": [], "used": False}
            ]
        },
    ],
)
def test_what_is_about_no_call_that_was_made_otherwise(change: dict[str, Any]) -> None:
    found = _asked(_divergence(**change))
    assert (found.calls, found.answers) == (CALLS, ("",))
    assert compare(exchange(), exchange(divergences=[_divergence(**change)])).verdict == "diverged"


@pytest.mark.parametrize(
    "paths",
    [
        [],
        [{"path": "$.request['n", "jsonPath": "", "kind": "changed", "expected": 1, "observed": 2}],
        [{"path": "$.nowhere.n", "jsonPath": "", "kind": "removed", "expected": 1, "observed": 2}],
        [{"path": "$", "jsonPath": "$", "kind": "removed", "expected": 1, "observed": 2}],
    ],
)
def test_where_the_places_do_not_fit_the_whole_request_is_taken(paths: list[Any]) -> None:
    found = _asked(_divergence(paths=paths))
    assert found.calls[0].asked == {"url": URL, "method": "GET", "n": 2}


@pytest.mark.parametrize("data", [None, 7, [], {"request": 7}, {"request": {"url": "http://["}}])
def test_requests_of_any_shape(data: Any) -> None:
    for operation in ("network GET", "other"):
        found = _asked(
            _divergence(observed=_seen(data, operation), expected=_event(data), paths=[])
        )
        assert found.answers != ("",)
        compare(exchange(), exchange(), CALLS, found.calls)
