"""Cassettes of real clients that are reviewed, updated and recorded again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests

import reenact
from reenact.store.verify import verify


class Api:
    """Answers with JSON, in the words of the moment; counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.words = "hello"
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                """Nobody reads it."""

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                api.asked.append(self.path)
                self.answer({"choices": [_choice(api.words)], "model": "m", "usage": {}})

            def do_GET(self) -> None:
                api.asked.append(self.path)
                if self.path == "/stream":
                    self.pieces()
                else:
                    self.answer({"path": self.path, "é": [1, None]})

            def answer(self, value: Any) -> None:
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("X-Request-Id", str(len(api.asked)))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def pieces(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for word in ("one", "two"):
                    piece = f"data: {word}\n\n".encode()
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _choice(words: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": words}, "finish_reason": "stop"}


@pytest.fixture
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.stop()


def _program(api: Api, question: str = "hi", last: str = "/b") -> list[Any]:
    with httpx.Client() as client:
        seen: list[Any] = [client.get(f"{api.url}/a").text]
        with client.stream("GET", f"{api.url}/stream") as answer:
            seen += list(answer.iter_raw())
        asked = {"model": "m", "messages": [{"role": "user", "content": question}]}
        seen.append(client.post(f"{api.url}/v1/chat/completions", json=asked).json())
    return [*seen, requests.get(f"{api.url}{last}", timeout=10).text]


def _run(tape: Path, mode: str, api: Api, *asks: str) -> tuple[list[Any], Any]:
    with reenact.session(tape=tape, mode=mode, strict=True) as session:
        seen = _program(api, *asks)
    return seen, session.report()


def _lines(tape: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tape.read_bytes().splitlines()]


def test_json_in_answers_is_json_in_the_cassette_and_comes_back_to_the_byte(
    api: Api, tmp_path: Path
) -> None:
    tape = tmp_path / "t.jsonl"
    made, _ = _run(tape, "record", api)
    first = _lines(tape)[1]["data"]["response"]
    assert first["body"] == {"$json": {"path": "/a", "é": [1, None]}, "printed": "spaced ascii"}
    asked = len(api.asked)
    replayed, _ = _run(tape, "replay", api)
    assert replayed == made
    assert len(api.asked) == asked
    verify(tape)


def test_a_changed_question_to_a_model_is_asked_again_and_nothing_else(
    api: Api, tmp_path: Path
) -> None:
    tape = tmp_path / "t.jsonl"
    made, _ = _run(tape, "record", api)
    old, asked = tape.read_bytes().splitlines(), len(api.asked)
    api.words = "good morning"
    again, report = _run(tape, "update", api, "good morning?")
    assert api.asked[asked:] == ["/v1/chat/completions"]
    assert (report.kept, len(report.changed), report.added, report.dropped) == (3, 1, [], [])
    assert report.changed[0].json_path == "$.request.body.messages[0].content"
    assert [one for one in again if one in made] == [*made[:3], made[4]]
    new = tape.read_bytes().splitlines()
    changed = [number for number, line in enumerate(old) if line != new[number]]
    assert [_lines(tape)[number].get("type") for number in changed] == [
        "llm_request",
        "llm_response",
        None,
    ]
    replayed, _ = _run(tape, "replay", api, "good morning?")
    assert replayed == again
    assert len(api.asked) == asked + 1


def test_recording_everything_again_shows_only_what_the_world_says_now(
    api: Api, tmp_path: Path
) -> None:
    tape = tmp_path / "t.jsonl"
    _run(tape, "record", api)
    before = tape.read_bytes()
    _run(tape, "rewrite", api)
    assert tape.read_bytes() == before  # other dates, request ids and times
    api.words = "good evening"
    made, _ = _run(tape, "rewrite", api)
    old, new = before.splitlines(), tape.read_bytes().splitlines()
    changed = [_lines(tape)[at].get("type") for at, line in enumerate(old) if line != new[at]]
    assert changed == ["llm_response", None]
    replayed, _ = _run(tape, "replay", api)
    assert replayed == made


def test_a_run_that_fails_in_the_middle_changes_nothing(api: Api, tmp_path: Path) -> None:
    tape = tmp_path / "t.jsonl"
    _run(tape, "record", api)
    before = tape.read_bytes()
    for mode in ("update", "rewrite"):
        with (
            pytest.raises(ZeroDivisionError),
            reenact.session(tape=tape, mode=mode, warn=lambda _: None),
        ):
            httpx.get(f"{api.url}/new")
            raise ZeroDivisionError
        assert tape.read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]
