"""Flows of mitmproxy."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.interop.mitmproxy import read
from reenact.interop.model import Exchange
from tests.unit.interop.foreign_files import losses_of, refused
from tests.unit.interop.mitmproxy_flows import REQUEST, RESPONSE, flow, packed


def test_a_flow_is_an_exchange() -> None:
    found = read(packed(flow()) + packed(flow(request={**REQUEST, "port": 8443})))
    first, second = found.items
    assert isinstance(first, Exchange)
    assert isinstance(second, Exchange)
    assert (first.request.method, first.request.url) == ("POST", "https://a.example/x?a=1")
    assert first.request.headers == (("X", "1"), ("X", "2"))
    assert (first.request.body, first.body) == (b"asked", b"\xff\x00")
    assert (first.head.status, first.head.reason, first.head.version) == (
        201,
        "Created",
        "HTTP/2.0",
    )
    assert first.head.headers == (("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))
    assert first.ts == 1_700_000_000_500
    assert second.request.url == "https://a.example:8443/x?a=1"
    assert losses_of(found) == {}


@pytest.mark.parametrize(
    "changes,lost",
    [
        ({"type": "dns"}, {"not_http": 1}),
        ({"response": None}, {"no_response": 1}),
        ({"websocket": {"messages": []}}, {"websocket": 1}),
        ({"response": {**RESPONSE, "content": None}}, {"body_missing": 1}),
        ({"response": {**RESPONSE, "trailers": [[b"a", b"b"]]}}, {"trailers": 1}),
    ],
)
def test_what_is_lost(changes: dict[str, Any], lost: dict[str, int]) -> None:
    assert losses_of(read(packed(flow(**changes)))) == lost


def _nested() -> bytes:
    value = packed([])
    for _ in range(70):
        value = b"%d:%b]" % (len(value), value)
    return value


@pytest.mark.parametrize(
    "content",
    [
        b"not a flow",
        b"3:abc",
        b"9999999999999999:a,",
        packed(flow())[:-5],
        packed([1, 2]),
        packed(flow(version=5)),
        packed(flow(version=None)),
        packed(flow(response={**RESPONSE, "status_code": 7})),
        packed(flow(request={**REQUEST, "headers": [b"a"]})),
        b"1:x#",
        b"1:x?",
        b"3:1:a}",
        _nested(),
    ],
    ids=lambda content: str(content[:20]),
)
def test_what_is_no_flow_is_refused(content: bytes) -> None:
    assert str(refused(read, content).fields["place"]).startswith("flow 1")
