"""Secrets of every shape through agent runs: none in any file of the recording, nor on stderr."""

from __future__ import annotations

from pathlib import Path

import pytest

import reenact
from reenact.agents import (
    Compaction,
    Message,
    ModelReply,
    ModelRequest,
    ReplayConfig,
    ToolRequest,
    run_agent,
)
from reenact.policy.redaction.redactor import Redactor
from reenact.tools.llm import llm
from reenact.tools.tool import tool
from tests.leak.planted import SHAPES, Plant, plant_shape

pytestmark = pytest.mark.thinned(3)

SHAPE_NAMES = sorted(SHAPES)
MARKS = ("input", "reply", "argument", "result", "failure", "summary", "history", "output")


class TooLong(Exception):
    code = "context_length_exceeded"


def _planted(kind: str) -> dict[str, Plant]:
    return {mark: plant_shape(kind, f"an agent's {mark}") for mark in MARKS}


def _straddling(plant: Plant) -> str:
    """So that what is cut off cuts through the secret."""
    return f"{'word ' * 21}{plant.text} and more {'word ' * 21}"


def _run(plants: dict[str, Plant]) -> None:
    """Every place of a run that a secret can get to."""
    asked: list[ModelRequest] = []

    @tool
    def send(key: str) -> str:
        return f"sent with {plants['result'].text}"

    @tool
    def refuse(key: str) -> str:
        raise LookupError(f"not with {plants['failure'].text}")

    @llm(model="scripted")
    def model(request: ModelRequest) -> ModelReply:
        asked.append(request)
        if len(asked) == 1:
            raise TooLong("no")
        if len(asked) > 2:
            return ModelReply(text=_straddling(plants["output"]))
        calls = (
            ToolRequest(id=f"c{name}", name=name, arguments={"key": plants["argument"].text})
            for name in ("send", "refuse")
        )
        return ModelReply(text=plants["reply"].text, tool_calls=tuple(calls))

    history = [Message(role="user", text=plants["history"].text)] * 4
    run_agent(
        model,
        _straddling(plants["input"]),
        messages=history,
        tools=[send, refuse],
        compaction=Compaction(keep=1, summarize=lambda old: plants["summary"].text),
    ).check()


@pytest.mark.parametrize("kind", SHAPE_NAMES)
def test_no_secret_of_a_run_is_in_its_recording(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plants = _planted(kind)
    place = tmp_path / "c"
    with reenact.session(capture=place, mode="record", redaction=Redactor("default"), seal=False):
        _run(plants)
    written = [path.read_bytes() for path in place.rglob("*") if path.is_file()]
    said = capsys.readouterr()
    written.append(f"{said.out}{said.err}".encode())
    needles = {(mark, needle) for mark, one in plants.items() for needle in one.needles()}
    assert written[0]
    assert {mark for mark, needle in needles for text in written if needle in text} == set()


def test_a_run_with_secrets_is_replayed(tmp_path: Path) -> None:
    plants = _planted("shape.openai")
    with reenact.session(capture=tmp_path / "c", mode="record"):
        _run(plants)
    with reenact.session(capture=tmp_path / "c", strict=True) as session:
        _run(plants)
    assert session.report().status == "ok"


def test_a_config_records_with_redaction(tmp_path: Path) -> None:
    plant = plant_shape("shape.github", "a config")

    @llm(model="scripted")
    def model(request: ModelRequest) -> ModelReply:
        return ModelReply(text="x")

    config = ReplayConfig(mode="capture", capture_dir=tmp_path / "c")
    run_agent(model, plant.text, replay=config).check()
    text = (tmp_path / "c" / "events.jsonl").read_bytes()
    assert b"REDACTED" in text
    assert [needle for needle in plant.needles() if needle in text] == []
