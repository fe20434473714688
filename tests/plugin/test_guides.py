"""What the guides for tests show is what happens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.meta.markdown import blocks
from tests.meta.tree import ROOT
from tests.plugin.project import Project

pytest_plugins = ["pytester"]

GUIDES = ROOT / "docs" / "guides"


def _example(page: str) -> str:
    return next(block.text for block in blocks(GUIDES / page) if block.language == "python")


def test_the_guide_to_tests_shows_what_happens(project: Project) -> None:
    example = _example("pytest.md").replace("https://weather.example", project.world.url)
    project.write("test_weather.py", example)
    project.run("-q").stdout.fnmatch_lines(["reenact: 1 recorded"])
    project.run("-q").stdout.fnmatch_lines(["reenact: 1 replayed"])
    assert project.world.news() == ["/forecast"]
    assert project.cassettes == ["test_weather/test_forecast.jsonl"]
    project.write("test_weather.py", example.replace("/forecast", "/outlook", 1))
    run = project.run("-q")
    run.stdout.fnmatch_lines(
        [
            "test_weather.py:9: in test_forecast",
            "E   reenact.errors.DivergenceError: divergence: event_payload_mismatch, lane 0, event 2",
            "E     $.request.url",
            "pytest test_weather.py::test_forecast --reenact-update",
        ]
    )


def test_the_guide_names_every_option_and_every_argument() -> None:
    from reenact.pytest_plugin.cassette_marker import MODES, argument_types
    from reenact.pytest_plugin.options import SETTINGS

    text = (GUIDES / "pytest.md").read_text("utf-8")
    options = ("mode", "update", "rewrite", "policy", "strict", "lenient", "report")
    wanted = [*argument_types(), *SETTINGS, *MODES, *(f"--reenact-{name}" for name in options)]
    assert [name for name in wanted if f"`{name}" not in text] == []


class _Model(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(asked)  # type: ignore[attr-defined]
        (self._stream if asked.get("stream") else self._answer)()

    def _answer(self) -> None:
        message = {"role": "assistant", "content": "Oslo."}
        self._send("application/json", [json.dumps({"choices": [{"message": message}]})])

    def _stream(self) -> None:
        words = ("one ", "two ", "three")
        said = [json.dumps({"choices": [{"delta": {"content": word}}]}) for word in words]
        self._send("text/event-stream", [f"data: {one}\n\n" for one in (*said, "[DONE]")])

    def _send(self, kind: str, pieces: list[str]) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece.encode())
            self.wfile.flush()

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def model() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.daemon_threads = False
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_guide_to_models_shows_what_happens(project: Project, model: Any) -> None:
    url = f"http://127.0.0.1:{model.server_port}"
    example = _example("llm-tests.md").replace("https://models.example", url)
    project.write("test_model.py", example)
    project.run().assert_outcomes(passed=2)
    assert len(model.asked) == 2
    project.run().assert_outcomes(passed=2)
    project.write("test_model.py", example.replace("Norway?", "Norway? One word."))
    run = project.run("-k", "answer")
    run.assert_outcomes(failed=1, deselected=1)
    shown = next(
        block.text for block in blocks(GUIDES / "llm-tests.md") if block.language == "text"
    )
    for line in shown.splitlines():
        if line != "...":
            assert line in run.outlines
    assert len(model.asked) == 2
