"""What was recorded of a model call means what the bytes meant on the wire."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import reenact
from reenact.boundaries.http.encoding import look
from reenact.lenses.conversation import read_event, read_response
from reenact.lenses.model import Asked
from reenact.lenses.registry import TABLE
from tests.integration.sessions import Studio
from tests.unit.lenses.spoken import SSE, STREAMS, chunk, sse

LONG = sse(*(chunk({"content": f"{number} "}) for number in range(2_000)), done=True)
ANSWERS = {
    f"{at}-{name}": (name, kind, body)
    for at, (name, kind, body) in enumerate((*STREAMS, ("openai.chat", SSE, LONG)))
}
QUESTION: Any = {
    "model": "small",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Paris?"}],
    "contents": [{"role": "user", "parts": [{"text": "Paris?"}]}],
    "input": "Paris?",
}
PATHS = {lens.name: f"/model/small{lens.paths[0]}" for lens in TABLE}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        _, kind, body = ANSWERS[self.headers["x-answer"]]
        coding = self.headers["x-coding"]
        self.send_response(200)
        self.send_header("content-type", kind)
        if coding:
            self.send_header("content-encoding", coding)
        self.end_headers()
        self.wfile.write(gzip.compress(body) if coding else body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _undo(body: bytes, coding: str) -> bytes | None:
    seen = look(body, coding)
    return None if seen is None else seen.text


@pytest.mark.parametrize("coding", ["", "gzip"], ids=["plain", "gzip"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_recorded_call_can_be_read(answer: str, coding: str, server: str, tmp_path: Path) -> None:
    name, kind, body = ANSWERS[answer]
    headers = {"x-answer": answer, "x-coding": coding}

    def ask() -> bytes:
        with httpx.Client(trust_env=False) as client:
            return client.post(server + PATHS[name], json=QUESTION, headers=headers).content

    assert Studio(tmp_path).record(ask, capture=tmp_path / "capture") == body
    with reenact.open_recording(tmp_path / "capture") as recording:
        stored = [event.data for event in recording]
    [request] = [data["request"] for data in stored if "request" in data]
    [response] = [data["response"] for data in stored if "response" in data]
    asked = read_event({"request": request})
    assert isinstance(asked, Asked)
    assert asked.lens == name
    answered = read_event({"response": response}, lens=name, undo=_undo)
    assert answered == read_response(name, 200, kind, body)
