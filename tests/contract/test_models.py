"""Requests to models: recorded with what they mean, and served as any other."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

import reenact
from reenact import Policy, Session
from reenact.boundaries.registry import PATCHES
from reenact.engine.session.settings import resolve_settings
from reenact.format.event import Event
from reenact.policy.model import BoundaryRule
from tests.contract.clients.cases import every
from tests.contract.clients.face import Client
from tests.contract.server import Exchange, Handler
from tests.contract.stage import Stage

JSON = ("Content-Type", "application/json")
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
PATH = "/v1/chat/completions"


def _models(exchange: Exchange) -> None:
    """``/v1/chat/completions``, whole or streamed; whatever else is asked is echoed."""
    if exchange.path != PATH:
        exchange.answer("200 OK", exchange.asked.body, JSON)
        return
    asked = json.loads(exchange.asked.body)
    if asked.get("stream"):
        _stream(exchange)
        return
    message = {"role": "assistant", "content": f"answer {exchange.number}"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    answer = {"id": f"id-{exchange.number}", "choices": [choice], "usage": USAGE}
    body = json.dumps(answer).encode()
    if exchange.asked.header("accept-encoding") == "gzip":
        exchange.answer("200 OK", gzip.compress(body), JSON, ("Content-Encoding", "gzip"))
    else:
        exchange.answer("200 OK", body, JSON)


def _stream(exchange: Exchange) -> None:
    exchange.head("200 OK", ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
    for delta, end in (({"content": "an"}, None), ({"content": "swer"}, None), ({}, "length")):
        choice = {"index": 0, "delta": delta, "finish_reason": end}
        exchange.chunk(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
    exchange.chunk(f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\n".encode())
    exchange.chunk(b"data: [DONE]\n\n")
    exchange.send(b"0\r\n\r\n")


@pytest.fixture(scope="module")
def own_endpoints() -> Mapping[str, Handler]:
    return {"/v1": _models}


def _body(text: str = "hello", **more: Any) -> bytes:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": "small-1", "messages": messages, **more}).encode()


def _asks(stage: Stage, client: Client, *texts: str) -> list[bytes]:
    address = f"{stage.url}{PATH}"
    answers = [client.fetch("POST", address, (JSON,), _body(text)) for text in texts or ("hello",)]
    return [answer.body for answer in answers]


def _events(stage: Stage, name: str = "run") -> list[Event]:
    """Without those that only say when something was handed over."""
    with reenact.open_recording(stage.folder / name) as source:
        return [event for event in source if event.data.get("source") != "schedule"]


@every()
def test_a_question_to_a_model_is_a_model_call(stage: Stage, client: Client) -> None:
    answers = stage.check(lambda: _asks(stage, client, "one", "two"))
    assert [json.loads(answer)["id"] for answer in answers] == ["id-000001", "id-000002"]
    asked, answered, again, _ = _events(stage)
    assert [asked.type, answered.type] == ["llm_request", "llm_response"]
    said = {name: asked.data[name] for name in ("lens", "provider", "model", "attempt", "call")}
    assert said == {
        "lens": "openai.chat",
        "provider": "openai-compatible",
        "model": "small-1",
        "attempt": 0,
        "call": 0,
    }
    assert asked.data["request"]["body"]["messages"] == [{"role": "user", "content": "one"}]
    assert answered.parent == asked.seq
    assert answered.data["stopReason"] == "stop"
    assert answered.data["usage"] == {"input": 5, "output": 2, "total": 7}
    assert answered.data["call"] == 0
    assert again.data["call"] == 1
    assert again.data["inputHash"] != asked.data["inputHash"]


@every()
def test_a_changed_question_is_found(stage: Stage, client: Client) -> None:
    stage.record(lambda: _asks(stage, client, "one"))
    found, text = stage.diverges(lambda: _asks(stage, client, "two"))
    assert found.code == "event_payload_mismatch"
    assert "$.request.body.messages[0].content" in text
    assert "$.inputHash" not in text


def _streams(stage: Stage, stop: int | None = None) -> list[bytes]:
    found: list[bytes] = []
    with (
        httpx.Client(trust_env=False) as client,
        client.stream("POST", f"{stage.url}{PATH}", json=json.loads(_body(stream=True))) as answer,
    ):
        for piece in answer.iter_raw():
            found.append(piece)
            if len(found) == stop:
                break
    return found


def test_a_streamed_answer_says_how_it_ended(stage: Stage) -> None:
    pieces = stage.check(lambda: _streams(stage))
    assert pieces[-1] == b"data: [DONE]\n\n"
    answered = next(event for event in _events(stage) if event.type == "llm_response")
    assert (answered.data["ended"], answered.data["stopReason"]) == ("done", "length")
    assert answered.data["usage"]["total"] == 7


def test_a_stream_that_is_left_early(stage: Stage) -> None:
    pieces = stage.check(lambda: _streams(stage, stop=1))
    assert len(pieces) == 1
    answered = next(event for event in _events(stage) if event.type == "llm_response")
    assert (answered.data["ended"], answered.data["stopReason"]) == ("abandoned", None)


def test_what_is_behind_a_content_coding_is_read(stage: Stage) -> None:
    def program() -> Any:
        with httpx.Client(trust_env=False, headers={"accept-encoding": "gzip"}) as client:
            return client.post(f"{stage.url}{PATH}", json=json.loads(_body())).json()["id"]

    assert stage.check(program) == "id-000001"
    _, answered = _events(stage)
    assert (answered.data["stopReason"], answered.data["usage"]["input"]) == ("stop", 5)


def _post(stage: Stage, path: str, body: bytes, **headers: str) -> bytes:
    kind = {"content-type": "application/json", **headers}
    return httpx.post(f"{stage.url}{path}", content=body, headers=kind, trust_env=False).content


STRANGE = {
    "no messages, either": ("/v1/elsewhere/chat/completions", b'{"prompt": "x"}'),
    "no messages in it": ("/v1/messages", b'{"model": "m"}'),
    "no object": ("/v1/responses", b"[1]"),
    "not JSON": ("/v1/messages", b"{"),
    "another path": ("/v1/embeddings", b'{"model": "m", "input": "x"}'),
}


@pytest.mark.parametrize("path, body", STRANGE.values(), ids=STRANGE.keys())
def test_what_no_lens_knows_stays_a_network_event(stage: Stage, path: str, body: bytes) -> None:
    assert stage.check(lambda: _post(stage, path, body)) == body
    [event] = _events(stage)
    assert (event.type, event.data["source"]) == ("nondeterministic", "network")


def test_an_attempt_that_the_sdk_says_it_is(stage: Stage) -> None:
    stage.record(lambda: _post(stage, PATH, _body(), **{"x-stainless-retry-count": "2"}))
    asked, answered = _events(stage)
    assert (asked.data["attempt"], answered.data["attempt"]) == (2, 2)


def test_tools_have_a_hash_of_their_own(stage: Stage) -> None:
    tools = [{"type": "function", "function": {"name": "look", "parameters": {}}}]

    def program() -> None:
        for offered in (tools, tools, [*tools, *tools]):
            _post(stage, PATH, _body(tools=offered))

    stage.record(program)
    first, second, third = (
        (event.data["inputHash"], event.data["toolSchemaHash"])
        for event in _events(stage)
        if event.type == "llm_request"
    )
    assert first == second
    assert first[0] == third[0]
    assert first[1] != third[1]


def test_no_hash_gives_a_secret_away(stage: Stage) -> None:
    """Two secrets of one shape, and the same hash: it is of what is written."""
    secrets = ["sk-" + "live" + 24 * digit for digit in "78"]
    stage.record(lambda: [_post(stage, PATH, _body(f"my key is {one}")) for one in secrets])
    asked = [event.data for event in _events(stage) if event.type == "llm_request"]
    assert asked[0]["inputHash"] == asked[1]["inputHash"]
    assert "rawHash" not in asked[0]
    log = (stage.folder / "run" / "events.jsonl").read_text(encoding="utf-8")
    assert not any(one in log for one in secrets)


def _net(stage: Stage, program: Callable[[], Any]) -> Any:
    """Recorded as ``--record-net-to`` does it."""
    stage.server.begin_act()
    place = stage.folder / "run"
    with Session(
        resolve_settings(capture=place, mode="record", only="network", boundaries=PATCHES)
    ):
        return program()


OLD: dict[str, Callable[[Stage], Any]] = {
    "whole": lambda stage: _post(stage, PATH, _body()),
    "streamed": _streams,
}


@pytest.mark.parametrize("program", OLD.values(), ids=OLD.keys())
@pytest.mark.parametrize("match", ["lane", "lookup"])
def test_a_recording_without_meaning_is_served(
    stage: Stage, program: Callable[[Stage], Any], match: str
) -> None:
    """As net tapes are, and what was recorded before there were lenses."""
    recorded = _net(stage, lambda: program(stage))
    [event] = _events(stage)
    assert event.type == "nondeterministic"
    assert stage.replay(lambda: program(stage), match=match) == recorded


def test_what_is_missing_is_added_beside_what_was_recorded_without_meaning(stage: Stage) -> None:
    _net(stage, lambda: _post(stage, PATH, _body("one")))
    with stage.session("record_missing"):
        both = [_post(stage, PATH, _body(text)) for text in ("one", "two")]
    assert [event.type for event in _events(stage)] == [
        "nondeterministic",
        "llm_request",
        "llm_response",
    ]
    replayed = stage.replay(lambda: [_post(stage, PATH, _body(text)) for text in ("one", "two")])
    assert replayed == both


def test_models_are_a_capability(stage: Stage) -> None:
    rule = BoundaryRule(capability="llm.call", action="pass")
    policy = Policy(id="p", boundaries=(rule,), allow_passthrough=True)
    with stage.session("record", policy=policy) as session:
        _post(stage, PATH, _body())
    assert session.report().passed == {"llm.call openai-compatible/small-1": 1}
    assert _events(stage) == []


def _talk(stage: Stage) -> list[str]:
    answers = [json.loads(_post(stage, PATH, _body(text))) for text in ("one", "two")]
    return [answer["choices"][0]["message"]["content"] for answer in answers]


def _forked(stage: Stage, at: reenact.At) -> list[str]:
    stage.server.begin_act()
    with stage.session("replay", fork=at, into=stage.folder / "fork"):
        return _talk(stage)


def test_a_conversation_is_forked_with_another_model(stage: Stage) -> None:
    then = stage.record(lambda: _talk(stage))
    now = _forked(stage, reenact.At("last-llm", model="large-1"))
    assert now[0] == then[0]
    [asked] = stage.server.journal
    sent = json.loads(asked.body)
    assert (sent["model"], sent["messages"][0]["content"]) == ("large-1", "two")
    asks = [event.data for event in _events(stage, "fork") if event.type == "llm_request"]
    assert [one["call"] for one in asks] == [0, 1]
    assert asks[1]["request"]["body"]["model"] == "small-1"
    assert (asks[1]["sent"]["body"]["model"], asks[1]["changed"]) == ("large-1", ["model"])
    assert "inputHash" in asks[1]
    assert stage.replay(lambda: _talk(stage), "fork") == now


def test_a_conversation_is_forked_with_another_answer(stage: Stage) -> None:
    stage.record(lambda: _talk(stage))
    path = "$.response.body.choices[0].message.content"
    now = _forked(stage, reenact.At("llm:1", set={path: "another"}))
    assert now == ["another", "answer 000001"]
    assert [json.loads(asked.body)["messages"][0]["content"] for asked in stage.server.journal] == [
        "two"
    ]
    assert stage.replay(lambda: _talk(stage), "fork") == now


def test_a_question_is_put_otherwise(stage: Stage) -> None:
    stage.record(lambda: _talk(stage))
    at = reenact.At("llm:2", set={"$.request.body.messages[0].content": "three"})
    now = _forked(stage, at)
    [asked] = stage.server.journal
    assert json.loads(asked.body)["messages"][0]["content"] == "three"
    assert stage.replay(lambda: _talk(stage), "fork") == now
