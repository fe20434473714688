"""Two exchanges side by side: the verdict, and what it rests on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reenact.exchange.comparison.compare import compare
from reenact.exchange.model import Body, Change, ErrorFacts, Payload
from tests.unit.exchange.comparison.samples import call, exchange, of_results, payload, rules, step


def test_the_same_exchange_again_is_identical() -> None:
    steps = [step("validate", 1), step("charge", 2, output={"ok": True})]
    found = compare(
        exchange("x-1", processors=steps),
        msgspec.structs.replace(exchange("x-2", processors=steps), duration=9.0, agent_id="other"),
        [call(1, response={"status": 200})],
        [call(7, response={"status": 200})],
    )
    assert (found.verdict, found.first) == ("identical", "")
    assert [one.state for one in found.processors] == ["same"] * 2
    assert [one.state for one in found.calls] == ["same"]
    assert (found.duration.before, found.duration.after) == (0.0, 9.0)
    assert found.counts == type(found.counts)()


@pytest.mark.parametrize(
    "before, after, verdict",
    [
        ({"error": "KeyError"}, {}, "fixed"),
        ({}, {"error": "KeyError"}, "regressed"),
        ({"status": 500}, {"status": 200}, "fixed"),
        ({"status": 404}, {"status": 201}, "fixed"),
        ({"status": 200}, {"status": 404}, "regressed"),
        ({"status": 200}, {"status": 503}, "regressed"),
        ({"status": 422}, {"status": 500}, "regressed"),
        ({"status": 500}, {"status": 422}, "diverged"),
        ({"error": "KeyError"}, {"error": "ValueError"}, "diverged"),
        ({"status": 200}, {"status": 201}, "diverged"),
        ({"error": "KeyError"}, {"error": "KeyError"}, "identical"),
        ({}, {"divergences": [{"code": "call.missing"}]}, "diverged"),
    ],
)
def test_verdict_of_how_both_ended(
    before: dict[str, Any], after: dict[str, Any], verdict: str
) -> None:
    assert compare(exchange(**before), exchange(**after)).verdict == verdict


def test_only_the_edit_differs() -> None:
    found = compare(exchange(), exchange(start=payload({"amount": 5})))
    assert found.verdict == "equivalent"
    assert found.first == "the start payload: /body/amount is 5, and was 1"
    assert found.cause == "the start payload: /body/amount differs"
    (one,) = found.start
    assert (one.op, one.path, one.before, one.after, one.noise) == (
        "replace",
        "/body/amount",
        1,
        5,
        False,
    )


def test_content_length_of_a_changed_body_is_not_a_difference_of_its_own() -> None:
    short, long = {"content-length": "14"}, {"content-length": "15"}
    before = exchange(
        start=payload({"amount": 1}, headers=short), result=payload({"left": 9}, headers=short)
    )
    after = exchange(
        start=payload({"amount": 10}, headers=long), result=payload({"left": 10}, headers=long)
    )
    sent = {"headers": {"content-length": "2"}, "body": "ab"}
    said = {"headers": {"Content-Length": "3"}, "body": "abc"}
    found = compare(
        before,
        after,
        [call(1, request={"url": "/", **sent}, response=sent)],
        [call(1, request={"url": "/", **said}, response={**said, "headers": sent["headers"]})],
    )
    assert [one.path for one in found.start] == ["/body/amount"]
    assert [one.path for one in found.result] == ["/body/left"]
    assert found.counts.changed == 6
    (made,) = found.calls
    assert {one.path for one in made.changes} == {
        "/request/body",
        "/request/headers/Content-Length",
        "/request/headers/content-length",
        "/response/body",
    }  # a header that came or went is a difference

    alone = compare(
        exchange(start=payload(1, headers=short)), exchange(start=payload(1, headers=long))
    )
    assert [one.path for one in alone.start] == ["/headers/content-length"]
    gone = compare(exchange(start=payload(1, headers=short)), exchange(start=payload(2)))
    assert [one.path for one in gone.start] == ["/body", "/headers/content-length"]


def test_content_length_of_a_body_that_differs_by_noise_is_noise_with_it() -> None:
    short, long = {"content-length": "10"}, {"content-length": "11"}
    found = compare(
        exchange(result=payload({"id": 9}, headers=short)),
        exchange(result=payload({"id": 10}, headers=long)),
        rules=rules({"path": "/result/body/id"}),
    )
    assert found.verdict == "equivalent"


def test_an_edit_that_changes_the_result_diverges_where_it_first_shows() -> None:
    total = (Change(op="replace", path="/body/total", before=0, after=2),)
    other = (Change(op="replace", path="/body/total", before=0, after=10),)
    found = compare(
        exchange(processors=[step("price", 1, changes=total)], result=payload({"total": 2})),
        exchange(
            start=payload({"amount": 5}),
            processors=[step("price", 1, changes=other)],
            result=payload({"total": 10}),
        ),
    )
    assert found.verdict == "diverged"
    assert found.first == "processor price: /changes/body/total is 10, and was 2"
    assert found.counts.changed == 3


def test_trace_headers_and_dates_are_not_even_shown() -> None:
    found = compare(
        exchange(
            start=payload(1, headers={"traceparent": "00-a"}),
            result=payload(1, headers={"Date": "Mon"}),
        ),
        exchange(
            start=payload(1, headers={"traceparent": "00-b"}),
            result=payload(1, headers={"Date": "Tue"}),
        ),
    )
    assert found.verdict == "identical"


@pytest.mark.parametrize(
    "before, after, rule",
    [
        ({"id": 1}, {"id": 2}, {"path": "/result/body/id"}),
        ({"id": 1}, {}, {"path": "/result/body/id"}),
        ({"a": {"id": 1}}, {"a": {"id": 2}}, {"path": "/result/body/*/id"}),
        ({"a": [{"b": {"id": 1}}]}, {"a": [{"b": {"id": 2}}]}, {"path": "/result/**/id"}),
        ({"a": {"id": 1}}, {"a": {"id": 2}}, {"path": "/result/body/a"}),
        ({"id": 1}, {"id": "x"}, {"path": "/result/body/id", "kind": "present"}),
        (
            {"id": "ab12"},
            {"id": "cd34"},
            {"path": "/result/body/id", "kind": "regex", "pattern": "[a-z]+[0-9]+"},
        ),
        (
            {"n": 1.0},
            {"n": 1.05},
            {"path": "/result/body/n", "kind": "tolerance", "relative": 0.1},
        ),
        ({"n": 5}, {"n": 7}, {"path": "/result/body/n", "kind": "tolerance", "absolute": 2}),
        ({"a": [1, 2, 2]}, {"a": [2, 1, 2]}, {"path": "/result/body/a", "kind": "unordered"}),
    ],
)
def test_noise_is_shown_and_does_not_count(before: Any, after: Any, rule: dict[str, Any]) -> None:
    assert of_results(before, after).verdict == "diverged"
    found = of_results(before, after, rule)
    assert (found.verdict, found.first) == ("equivalent", "")
    assert found.counts.noise == len(found.result) > 0
    assert all(one.noise for one in found.result)


@pytest.mark.parametrize(
    "before, after, rule",
    [
        ({"id": 1}, {}, {"path": "/result/body/id", "kind": "present"}),
        ({"id": 1}, {"id": 2}, {"path": "/start/body/id"}),
        ({"id": 1}, {"id": 2}, {"path": "/result/body/*/id"}),
        (
            {"id": "ab12"},
            {"id": "x"},
            {"path": "/result/body/id", "kind": "regex", "pattern": "[a-z]+[0-9]+"},
        ),
        ({"n": 5}, {"n": 8}, {"path": "/result/body/n", "kind": "tolerance", "absolute": 2}),
        ({"n": 5}, {"n": "6"}, {"path": "/result/body/n", "kind": "tolerance", "absolute": 2}),
        ({"n": 1}, {"n": True}, {"path": "/result/body/n", "kind": "tolerance", "absolute": 2}),
        ({"a": [1, 2, 2]}, {"a": [1, 1, 2]}, {"path": "/result/body/a", "kind": "unordered"}),
        ({"a": [1, 2]}, {"a": [2]}, {"path": "/result/body/a", "kind": "unordered"}),
    ],
)
def test_a_rule_excuses_no_more_than_it_says(before: Any, after: Any, rule: dict[str, Any]) -> None:
    assert of_results(before, after, rule).verdict == "diverged"


def test_items_of_an_unordered_list_may_have_noise_in_them() -> None:
    before = {"a": [{"k": 1, "id": "x"}, {"k": 2, "id": "y"}]}
    after = {"a": [{"k": 2, "id": "z"}, {"k": 1, "id": "w"}]}
    unordered = {"path": "/result/body/a", "kind": "unordered"}
    ignored = {"path": "/result/body/a/*/id"}
    assert of_results(before, after, unordered, ignored).verdict == "equivalent"
    found = of_results(
        before, {"a": [{"k": 3, "id": "z"}, {"k": 1, "id": "w"}]}, unordered, ignored
    )
    assert found.first == "the result: /body/a/1/k is 3, and was 2"
    assert found.cause == "the result: /body/a/*/k differs"


def test_calls_are_aligned_and_compared() -> None:
    before = [
        call(1, "GET https://a.example/x", response={"n": 1}),
        call(2, "POST https://a.example/pay", request={"amount": 1}),
        call(3, "GET https://a.example/y"),
    ]
    after = [
        call(1, "GET https://a.example/new"),
        call(2, "GET https://a.example/x", response={"n": 1}),
        call(3, "POST https://a.example/pay", request={"amount": 5}),
    ]
    found = compare(exchange(), exchange(), before, after)
    assert [(one.state, one.before, one.after) for one in found.calls] == [
        ("added", None, 1),
        ("same", 1, 2),
        ("changed", 2, 3),
        ("removed", 3, None),
    ]
    assert found.first == "call GET https://a.example/new was made, and was not before"
    assert found.cause == found.first
    assert found.verdict == "diverged"
    excused = rules(
        {"path": "/calls/*/request/amount"},
        {"path": "/calls/GET https:~1~1a.example~1new"},
        {"path": "/calls/GET https:~1~1a.example~1y"},
    )
    assert compare(exchange(), exchange(), before, after, excused).verdict == "equivalent"


def test_steps_in_another_order_differ() -> None:
    before = exchange(processors=[step("a", 1), step("b", 2), step("c", 3)])
    after = exchange(processors=[step("a", 1), step("c", 2), step("b", 3)])
    found = compare(before, after)
    assert found.verdict == "diverged"
    assert found.counts.changed == 1
    assert [one.path for row in found.processors for one in row.changes] == ["/order"]


def test_a_body_that_was_clipped_is_compared_by_its_size() -> None:
    def clipped(size: int) -> Payload:
        return Payload(body=Body(type="text", clipped=size))

    assert compare(exchange(result=clipped(9)), exchange(result=clipped(9))).verdict == "identical"
    found = compare(exchange(result=clipped(9)), exchange(result=clipped(10)))
    assert [one.path for one in found.result] == ["/body/$clipped"]


def test_a_body_that_is_not_what_it_says_is_compared_as_text() -> None:
    broken = Payload(body=Body(type="json", text="{"))
    found = compare(exchange(result=broken), exchange(result=payload("{")))
    assert found.verdict == "identical"


def test_hostile_names_do_not_reach_the_sentence() -> None:
    found = of_results({"\x1b[31m": 1}, {"\x1b[31m": "\x07" * 1000})
    assert "\x1b" not in found.first
    assert "\x07" not in found.first
    assert len(found.first) < 400


def test_exchanges_that_differ_in_the_same_place_have_one_cause() -> None:
    def cause(value: Any, place: int, iteration: int) -> str:
        items = [{"price": 1}] * 3
        other = [*items[:place], {"price": value}, *items[place + 1 :]]
        one = step("price", 1, iteration=iteration, output={"items": items})
        same = step("price", 1, iteration=iteration, output={"items": other})
        return compare(exchange(processors=[one]), exchange(processors=[same])).cause

    found = {
        cause(value, place, at) for value in (2, "secret") for place in (0, 2) for at in (0, 5)
    }
    assert found == {"processor price: /output/items/*/price differs"}


@pytest.mark.parametrize(
    "after, cause",
    [
        ({"error": "KeyError"}, "it failed with KeyError, and completed before"),
        (
            {"divergences": [{"code": "call.missing", "detail": "a secret"}]},
            "divergence call.missing",
        ),
        ({}, ""),
    ],
)
def test_a_cause_without_a_place(after: dict[str, Any], cause: str) -> None:
    assert compare(exchange(), exchange(**after)).cause == cause


def test_a_cause_is_no_longer_than_a_line_of_a_list() -> None:
    before, after = (exchange(processors=[step("x" * 1_000, 1, output=one)]) for one in (0, 1))
    found = compare(before, after)
    assert found.first.endswith("/output is 1, and was 0")
    assert found.cause.endswith(": /output differs")
    assert len(found.cause) <= 300


def test_it_is_json_with_all_fields() -> None:
    found = msgspec.json.decode(msgspec.json.encode(of_results({"id": 1}, {"id": 2})))
    assert set(found) == {
        "verdict",
        "first",
        "cause",
        "status",
        "start",
        "result",
        "processors",
        "calls",
        "divergences",
        "revision",
        "duration",
        "counts",
        "ending",
        "httpStatus",
    }
    assert found["result"] == [
        {"op": "replace", "path": "/body/id", "before": 1, "after": 2, "noise": False}
    ]


def test_many_differences_are_counted_and_not_all_listed() -> None:
    found = of_results({str(n): 0 for n in range(3_000)}, {str(n): 1 for n in range(3_000)})
    assert found.counts.changed == 3_000
    assert len(found.result) == 2_000


def test_an_error_that_is_new_is_told_with_its_words() -> None:
    failed = step("check", 1, status="failed", error=ErrorFacts(type="shop.TooMany", message="501"))
    found = compare(exchange(processors=[step("check", 1)]), exchange(processors=[failed]))
    assert found.first == "processor check: /error is new: shop.TooMany: 501"
    assert found.cause == "processor check: /error is new: shop.TooMany"
