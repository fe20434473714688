"""Exchanges and comparisons on a screen: whatever they hold, it is shown and not obeyed."""

from __future__ import annotations

import io
from typing import Any

import pytest

from reenact.cli.server._exchange_text import ComparisonPrinter, ExchangePrinter, milliseconds
from tests.cli.samples import HOSTILE


def _shown(exchange: dict[str, Any], width: int = 0, **more: Any) -> str:
    out = io.StringIO()
    ExchangePrinter(width, out).print(exchange, **more)
    return out.getvalue()


def _compared(found: dict[str, Any], width: int = 0) -> str:
    out = io.StringIO()
    ComparisonPrinter(width, out).print(found)
    return out.getvalue()


def _hostile(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _hostile(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(_hostile, value)]
    return HOSTILE if isinstance(value, str) else value


EXCHANGE: dict[str, Any] = {
    "exchangeId": "x",
    "routeId": "r",
    "revision": "v",
    "app": "a",
    "environment": "e",
    "agentId": "g",
    "startedAt": 1,
    "status": "failed",
    "error": {"type": "t", "message": "m"},
    "correlationId": "c",
    "notReplayable": "n",
    "trace": {"traceId": "t"},
    "replay": {"sourceExchangeId": "s"},
    "start": {
        "headers": [["h", "v"]],
        "properties": {"http.method": "GET", "other": "x"},
        "body": {"type": "text", "text": "b"},
    },
    "result": {"body": {"type": "bytes", "base64": "AAA="}, "properties": {"http.status": 200}},
    "processors": [
        {
            "processorId": "p",
            "seq": 1,
            "kind": "choice",
            "branch": "b",
            "error": {"type": "t", "message": "m"},
            "changes": [{"op": "add", "path": "/a", "after": "x"}, {"op": "remove", "path": "/b"}],
        }
    ],
    "replays": [{"replayId": "r", "state": "completed", "verdict": "fixed"}],
}
CALLS = [{"seq": 3, "operation": "GET x", "response": {"status": 200}, "processorSeq": 1}]
COMPARISON: dict[str, Any] = {
    "verdict": "diverged",
    "first": "f",
    "status": {"before": "a", "after": "b"},
    "revision": {"before": "a", "after": "b"},
    "duration": {"before": 1.0, "after": 20_000.0},
    "start": [{"op": "replace", "path": "/a", "before": "one two", "after": "one three"}],
    "result": [{"op": "add", "path": "/b", "after": {"x": "y"}, "noise": True}],
    "processors": [
        {"path": "p", "state": "changed", "changes": [{"op": "remove", "path": "/x", "before": 1}]},
        {"path": "q", "state": "same", "changes": []},
    ],
    "calls": [{"operation": "GET x", "state": "added", "changes": [], "noise": True}],
    "divergences": [{"code": "c"}],
    "counts": {"changed": 2, "added": 0, "removed": 0, "noise": 1},
}


def test_query_string_and_properties_are_printed() -> None:
    properties = {
        "http.method": "GET",
        "http.path": "/orders",
        "http.query": "limit=5&sku=A-1",
        "http.host": "shop.example",
        "http.client": "10.0.0.7:4711",
        "tenant": 7,
    }
    lines = _shown({**EXCHANGE, "start": {"properties": properties}}).splitlines()
    assert "start   GET /orders?limit=5&sku=A-1" in lines
    assert '  http.host = "shop.example"' in lines
    assert '  http.client = "10.0.0.7:4711"' in lines
    assert "  tenant = 7" in lines
    assert not any("http.query" in line for line in lines), "it is in the first line"
    plain = _shown({**EXCHANGE, "start": {"properties": {**properties, "http.query": ""}}})
    assert "start   GET /orders\n" in plain


def test_nothing_in_an_exchange_is_obeyed() -> None:
    text = _shown(_hostile(EXCHANGE), calls=_hostile(CALLS))
    assert [line for line in text.splitlines() if not line.isprintable()] == []
    assert "owned" in text


def test_nothing_in_a_comparison_is_obeyed() -> None:
    hostile = _hostile({**COMPARISON})
    text = _compared(hostile)
    assert [line for line in text.splitlines() if not line.isprintable()] == []


@pytest.mark.parametrize("width", [20, 60])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    text = _shown(EXCHANGE, width, calls=CALLS) + _compared(COMPARISON, width)
    assert max(map(len, text.splitlines())) <= width


def test_a_comparison_says_what_counts_first() -> None:
    lines = _compared(COMPARISON).splitlines()
    assert lines[:5] == [
        "diverged: 2 changed, 1 noise",
        "  first   f",
        "  status  a -> b",
        "  route   a -> b",
        "  took    1.0 ms -> 20.00 s",
    ]
    assert "    one [-two-]{+three+}" in "\n".join(lines)
    assert "  + /b  (noise)" in lines
    assert "2 processors, 1 the same" in lines
    assert "  ~ p" in lines
    assert "  + GET x  (noise)" in lines


def test_parents_that_cannot_be_are_drawn_at_the_top() -> None:
    strange = [
        {"processorId": "ring", "seq": 2, "parentSeq": 2},
        {"processorId": "lost", "seq": 1, "parentSeq": 9},
    ]
    lines = _shown({"exchangeId": "x", "processors": strange}).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("     ")] == ["lost", "ring"]


def test_deep_nesting_neither_fails_nor_runs_off_the_screen() -> None:
    deep = [{"processorId": "p", "seq": n, "parentSeq": n - 1} for n in range(1, 3_000)]
    lines = _shown({"exchangeId": "x", "processors": deep}).splitlines()
    assert len(lines) > 2_999
    assert max(map(len, lines)) < 80


def test_many_changes_are_counted() -> None:
    changes = [{"op": "replace", "path": f"/{n}", "before": 1, "after": 2} for n in range(100)]
    assert "  and 80 more places" in _compared({"verdict": "diverged", "result": changes})
    assert milliseconds(None) == "-"


def _divergence(**more: Any) -> dict[str, Any]:
    def seen(amount: int) -> dict[str, Any]:
        request = {
            "body": {"amount": amount},
            "method": "POST",
            "url": "http://bank.example/pay?a=1",
        }
        return {
            "type": "nondeterministic",
            "operation": "network POST",
            "lane": "0",
            "data": {"source": "network", "op": "POST", "request": request},
        }

    gap = {
        "path": "$.request.body.amount",
        "jsonPath": "$['request']['body']['amount']",
        "kind": "changed",
        "expected": 100,
        "observed": 5,
    }
    return {
        "version": 1,
        "code": "event_payload_mismatch",
        "detail": "It differs.",
        "lane": "0",
        "expected": {**seen(100), **ENVELOPE},
        "observed": seen(5),
        "eventSeq": 1,
        "paths": [gap],
        **more,
    }


ENVELOPE = {"version": 1, "captureId": "c", "runId": "r", "seq": 1, "ts": 1}


def _told(*divergences: Any, width: int = 0) -> list[str]:
    shown = _compared({"verdict": "diverged", "divergences": list(divergences)}, width)
    return shown.splitlines()[3:]


def test_a_divergence_is_told_in_words() -> None:
    assert _told(_divergence(answer="recorded")) == [
        "divergence  event_payload_mismatch: POST http://bank.example/pay",
        "  /request/body/amount is 5, recorded 100",
        "  the recorded answer was given",
    ]
    assert _told(_divergence(answer="refused"))[-1] == "  it was refused"


def test_places_that_only_one_side_has() -> None:
    gap = {"path": "$.args.q", "jsonPath": "$['args']['q']", "expected": "tea", "observed": None}
    told = _told(_divergence(paths=[{**gap, "kind": "removed"}, {**gap, "kind": "added"}]))
    assert told[1:] == [
        '  /request/args/q is missing, recorded "tea"',
        "  /request/args/q is null, and is not in the recording",
    ]


def test_many_places_and_many_divergences_are_counted() -> None:
    gap = _divergence()["paths"][0]
    told = _told(*[_divergence(paths=[gap] * 9, morePaths=4)] * 25)
    assert told.count("  and 7 more places") == 20
    assert told[-1] == "and 5 more divergences"


def test_what_no_place_says_is_told_by_its_sentence_in_lines_that_fit() -> None:
    words = "Nothing asked for it: " + "the recorded run made this call and this one did not. " * 3
    told = _told(_divergence(code="event_missing", paths=[], detail=words.strip()), width=60)
    assert told[0].startswith("divergence  event_missing: POST http://bank.example/pay")
    assert "".join(line[1:] for line in told[1:]) == f" {words.strip()}"
    assert max(map(len, told)) <= 60


def test_what_was_waited_for_in_vain_is_told_once() -> None:
    left = _divergence(code="event_missing", paths=[], detail="left over")
    waited = {**left, "detail": "waited for", "flags": ["stalled"]}
    assert [line for line in _told(waited, left) if line.startswith("  ")] == ["  waited for"]
    assert [line for line in _told(left) if line.startswith("  ")] == ["  left over"]


@pytest.mark.parametrize(
    "one", [{"code": "c"}, {"version": 1, "flags": 7}, 7, None, {"answer": []}]
)
def test_divergences_that_are_none(one: Any) -> None:
    told = _told(one)
    assert len(told) == (1 if isinstance(one, dict) else 0)


def test_words_are_compared_in_a_line_and_names_side_by_side() -> None:
    def shown(before: str, after: str) -> list[str]:
        change = {"op": "replace", "path": "/a", "before": before, "after": after}
        return _compared({"verdict": "diverged", "result": [change]}).splitlines()[5:]

    assert shown("one two", "one three") == ["      one [-two-]{+three+}"]
    assert shown("A-1", "B-2") == ['      - "A-1"', '      + "B-2"']


def test_an_exchange_that_is_a_replay_shows_its_divergences() -> None:
    replay = {"sourceExchangeId": "s", "divergences": [_divergence()]}
    lines = _shown({**EXCHANGE, "replay": replay}).splitlines()
    at = lines.index("divergence  event_payload_mismatch: POST http://bank.example/pay")
    assert lines[at + 1] == "  /request/body/amount is 5, recorded 100"
