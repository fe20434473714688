"""A recording of ours as other formats see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reenact import rr
from reenact.boundaries.http.wire import Request
from reenact.interop.exporter import give
from reenact.interop.model import KINDS, Exchange, Losses, rebuilt
from reenact.testing import memory_source
from tests.unit.interop.foreign_files import events_of, exchange, losses_of, taken

ASKED = {"method": "GET", "url": "https://a.example/x"}
ANSWER = {"status": 200, "reason": "OK", "version": "HTTP/1.1", "headers": [["A", "1"]]}


def _given(*events: tuple[Any, ...]) -> Any:
    return give(memory_source(*events))


def _net(**data: Any) -> tuple[str, dict[str, Any]]:
    return "nondeterministic", {"source": "network", "op": "GET", "request": ASKED, **data}


def test_what_was_taken_is_given_back(tmp_path: Path) -> None:
    kinds = {"json": b'{"a": [1, "x"]}', "x-www-form-urlencoded": b"a=1&b=2", "octet": b"\xff"}
    items = [
        exchange(
            "POST",
            "https://a.example/x?b=2&a=1",
            sent=(("Content-Type", f"application/{kind}"), ("X", "1"), ("X", "2")),
            posted=posted,
            headers=(("B", "1"), ("B", "2")),
            body=b"\xff\x00",
        )
        for kind, posted in kinds.items()
    ]
    taken(list(items), tmp_path / "t")
    found = give(events_of(tmp_path / "t"))
    assert losses_of(found) == {}
    for one, other in zip(items, found.items, strict=True):
        assert isinstance(other, Exchange)
        assert (one.request, one.head, one.body, one.ts) == (
            other.request,
            other.head,
            other.body,
            other.ts,
        )


def test_entries_are_given_as_entries(tmp_path: Path) -> None:
    entry = rr.Entry(kind="db", op="q", key=b"k", req=b"a", resp=b"\xff", err=1)
    taken([entry], tmp_path / "t")
    assert give(events_of(tmp_path / "t")).items == [entry]


def test_a_model_call_is_an_http_call() -> None:
    request = {**ASKED, "method": "POST", "type": "json", "body": {"model": "m"}}
    found = _given(
        ("llm_request", {"request": request, "sent": {"headers": [["X", "1"]]}, "key": "k"}),
        ("llm_request", {"request": request, "key": "k"}),
    )
    assert (found.items, losses_of(found)) == ([], {"no_response": 2})
    source = memory_source(("llm_request", {"request": request, "key": "k"}))
    from reenact.format.event import Draft

    source = memory_source(
        ("llm_request", {"request": request, "sent": {"headers": [["X", "1"]]}, "key": "k"}),
        Draft(
            type="llm_response", data={"response": {**ANSWER, "body": "{}"}}, ts=1, parent=1, op=""
        ),
    )
    found = give(source)
    (one,) = found.items
    assert isinstance(one, Exchange)
    assert (one.request.method, one.request.headers) == ("POST", (("X", "1"),))
    assert (json.loads(one.request.body), one.body) == ({"model": "m"}, b"{}")
    assert losses_of(found) == {"body_rebuilt": 1}


@pytest.mark.parametrize(
    "event,lost",
    [
        (_net(error={"class": "x"}), {"error": 1}),
        (_net(), {"no_response": 1}),
        (_net(op="websocket.send"), {"websocket": 1}),
        (_net(request="by hand", response={}), {"events": 1}),
        (("nondeterministic", {"withheld": {"size": 1}}), {"withheld": 1}),
        (("nondeterministic", {"source": "clock", "key": "now", "value": 1}), {"events": 1}),
        (("tool_call", {"name": "x", "args": {}}), {"events": 1}),
        (("run_start", {"input": None}), {}),
    ],
)
def test_what_is_no_http_call_is_a_loss(event: Any, lost: dict[str, int]) -> None:
    found = _given(event)
    assert (found.items, losses_of(found)) == ([], lost)


def test_pieces_lanes_and_failures_in_the_middle_are_losses() -> None:
    answer = {**ANSWER, "body": "abc", "cuts": [1]}
    found = _given(_net(response=answer), (*_net(response=ANSWER, error={"class": "x"}), "0.1"))
    assert [one.body for one in found.items] == [b"abc", b""]
    assert losses_of(found) == {"pieces": 1, "order": 1, "error": 1}


def _rebuilt(kind: str, value: Any, *headers: tuple[str, str]) -> tuple[bytes, dict[str, int]]:
    losses = Losses()
    request = Request(method="POST", url="https://a.example/", headers=headers)
    found = rebuilt(request, {"type": kind, "body": value}, "", losses)
    return found.body, {loss.kind: loss.count for loss in losses}


def test_bodies_without_a_digest_are_written_anew() -> None:
    assert _rebuilt("json", {"a": "é"}) == ('{"a":"é"}'.encode(), {"body_rebuilt": 1})
    assert _rebuilt("form", [["a b", "1"]]) == (b"a+b=1", {"body_rebuilt": 1})
    assert _rebuilt("text", "x") == (b"x", {})
    assert _rebuilt("unread", {"digest": "d", "size": 1}) == (b"", {"body_unread": 1})


def test_a_multipart_body_is_put_together_again() -> None:
    parts: list[dict[str, Any]] = [
        {"name": "a", "type": "text", "value": "1"},
        {"name": "f", "filename": "x.bin", "type": "bytes", "value": b"\xff"},
        {"name": "j", "type": "json", "value": {"b": 1}, "headers": [["content-type", "a/json"]]},
        {"name": "q", "type": "form", "value": [["c", "2"]]},
    ]
    said = ("Content-Type", 'multipart/form-data; boundary="xyz"')
    body, lost = _rebuilt("multipart", parts, said)
    assert lost == {"body_rebuilt": 1}
    from reenact.boundaries.http.bodies import describe

    assert describe((said,), body)["body"] == [
        parts[0],
        parts[1],
        {**parts[2], "headers": [["content-type", "a/json"]]},
        {"name": "q", "type": "text", "value": "c=2"},
    ]


def test_every_kind_of_loss_is_described() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "foreign-formats.md"
    text = page.read_text("utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []
