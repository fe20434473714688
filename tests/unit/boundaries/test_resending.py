"""Requests that are sent otherwise, and answers that are served otherwise, where a run is forked."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from reenact import UsageError
from reenact.boundaries.http.fork import alter_answer, request_bytes, with_model
from reenact.boundaries.http.stored_body import served_body
from reenact.boundaries.http.wire import Request
from reenact.format.json_path import parse


def _request(url: str, body: Any, *headers: tuple[str, str]) -> Request:
    content = json.dumps(body).encode()
    said = (*headers, ("Content-Length", str(len(content))))
    return Request(method="POST", url=f"https://models.test{url}", headers=said, body=content)


@pytest.mark.parametrize(
    "url, body, path, model",
    [
        ("/v1/chat/completions", {"model": "a", "messages": []}, "/v1/chat/completions", "b"),
        ("/v1/responses", {"model": "a", "input": "x"}, "/v1/responses", "b"),
        ("/v1/messages", {"model": "a", "messages": []}, "/v1/messages", "b"),
        (
            "/v1beta/models/a:generateContent?alt=sse",
            {"contents": []},
            "/v1beta/models/b:generateContent?alt=sse",
            None,
        ),
        ("/model/a.c-v1%3A0/converse", {"messages": []}, "/model/b/converse", None),
        (
            "/openai/deployments/a/chat/completions?api-version=1",
            {"messages": [], "model": "a"},
            "/openai/deployments/b/chat/completions?api-version=1",
            "b",
        ),
    ],
)
def test_a_request_for_another_model(url: str, body: Any, path: str, model: str | None) -> None:
    other = with_model(_request(url, body), "b")
    assert other is not None
    assert other.url == f"https://models.test{path}"
    sent = json.loads(other.body)
    assert sent == (body if model is None else {**body, "model": model})
    assert dict(other.headers)["Content-Length"] == str(len(other.body))


@pytest.mark.parametrize(
    "url, body", [("/cars", {"model": "a", "year": 1}), ("/v1/messages", [1]), ("/x", {"input": 1})]
)
def test_what_asks_no_model_stays_as_it_is(url: str, body: Any) -> None:
    assert with_model(_request(url, body), "b") is None


def test_what_is_known_to_ask_a_model_is_changed_whatever_it_looks_like() -> None:
    other = with_model(_request("/ask", {"model": "a", "question": 1}), "b", known=True)
    assert other is not None
    assert json.loads(other.body) == {"model": "b", "question": 1}


def test_an_encoded_body_is_encoded_again() -> None:
    content = gzip.compress(b'{"model": "a", "messages": []}')
    request = Request(
        method="POST",
        url="https://models.test/v1/messages",
        headers=(("Content-Encoding", "gzip"), ("Content-Length", str(len(content)))),
        body=content,
    )
    # It is not known to ask a model before it is decoded, and nobody sends prompts so.
    assert with_model(request, "b") is None


def test_a_request_as_it_goes_over_a_connection() -> None:
    request = _request("/v1?a=1", {}, ("Host", "models.test"), ("Transfer-Encoding", "chunked"))
    assert request_bytes(request) == (
        b"POST /v1?a=1 HTTP/1.1\r\nHost: models.test\r\nContent-Length: 2\r\n\r\n{}"
    )


# Answers


def _answer(body: Any, *headers: tuple[str, str], **more: Any) -> dict[str, Any]:
    pairs = [list(pair) for pair in (*headers, ("Content-Length", "999"))]
    return {"response": {"status": 200, "headers": pairs, "body": body, **more}, "key": "k"}


def _served(data: dict[str, Any]) -> bytes:
    response = data["response"]
    body = served_body(response, response["headers"])
    assert body is not None
    assert dict(map(tuple, response["headers"]))["Content-Length"] == str(len(body))
    return body


def test_a_value_in_the_body_of_an_answer() -> None:
    before = _answer('{"choices": [{"text": "one"}]}', cuts=[3, 9], left=2)
    after = alter_answer(before, parse("$.response.body.choices[0].text"), "äther")
    assert json.loads(_served(after)) == {"choices": [{"text": "äther"}]}
    assert not {"cuts", "left"} & after["response"].keys()
    assert before["response"]["cuts"] == [3, 9]


def test_a_value_in_an_encoded_body() -> None:
    before = _answer(gzip.compress(b'{"a": 1}'), ("Content-Encoding", "gzip"))
    after = alter_answer(before, parse("$.response.body.a"), 2)
    assert json.loads(gzip.decompress(_served(after))) == {"a": 2}


@pytest.mark.parametrize("value, expected", [("plain", b"plain"), ({"a": 1}, b'{"a":1}')])
def test_a_whole_body(value: Any, expected: bytes) -> None:
    after = alter_answer(_answer("before"), parse("$.response.body"), value)
    assert _served(after) == expected


def test_a_value_in_a_stream_of_events() -> None:
    body = 'event: x\ndata: {"d": 1}\n\ndata: {"d": 2}\n\ndata: [DONE]\n\n'
    before = _answer(body, ("Content-Type", "text/event-stream; charset=utf-8"))
    after = alter_answer(before, parse("$.response.body[1].d"), 9)
    assert _served(after) == b'event: x\ndata: {"d": 1}\n\ndata: {"d":9}\n\ndata: [DONE]\n\n'
    with pytest.raises(UsageError, match="leads nowhere") as raised:
        alter_answer(before, parse("$.response.body[3].d"), 9)
    assert "$.response.body with 3 items" in raised.value.hint


def test_what_is_no_body_is_changed_as_it_stands() -> None:
    after = alter_answer(_answer("x"), parse("$.response.status"), 500)
    assert after["response"]["status"] == 500
    assert alter_answer({"result": [1]}, parse("$.result[0]"), 2) == {"result": [2]}
