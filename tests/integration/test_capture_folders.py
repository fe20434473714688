"""Where a capture is written: folders that cannot be created, and folders that hold something."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.agents import AgentResult, BusEvent, ModelReply, ModelRequest, run_agent
from reenact.errors import RecordingExists, ReenactError, SinkUnwritable, UsageError
from tests.contract.server import Server
from tests.integration.running import SERVES, Theatre


@reenact.llm(provider="house", model="tiny")
def model(request: ModelRequest) -> ModelReply:
    return ModelReply(text=f"You said {request.messages[-1].text}.", stop_reason="stop")


def capture(place: Path | None, text: str = "hello", **given: Any) -> AgentResult:
    config = {"mode": "capture", **given}
    if place is not None:
        config["captureDir"] = str(place)
    return run_agent(model, text, replay=config)


@pytest.fixture
def blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which ``.reenact`` is a file: no folder can be created there, by any user."""
    (tmp_path / ".reenact").write_text("in the way", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REENACT_ROOT", str(tmp_path))
    return tmp_path


def test_agent_run_continues_when_the_default_folder_cannot_be_created(
    blocked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[BusEvent] = []
    result = run_agent(model, "hello", replay={"mode": "capture"}, observers=[seen.append])
    assert (result.status, result.output) == ("ok", "You said hello.")
    assert (result.recording, result.recording_status) == (None, "error")
    assert result.to_json()["recordingStatus"] == "error"
    (warning,) = result.warnings
    assert "cannot write a recording at" in warning
    told = [(one.stream, one.data["message"]) for one in seen if one.data["phase"] == "warning"]
    assert told == [("error", warning)]
    assert seen[0].data["phase"] == "start"
    assert warning in capsys.readouterr().err
    assert [one.name for one in blocked.iterdir()] == [".reenact"]


def test_agent_run_continues_when_its_working_directory_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REENACT_ROOT", raising=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    before = Path.cwd()
    os.chdir(gone)
    gone.rmdir()
    try:
        result = capture(None)
        with pytest.raises(SinkUnwritable) as caught:
            capture(Path("named"))
    finally:
        os.chdir(before)
    assert (result.output, result.recording_status) == ("You said hello.", "error")
    assert caught.value.hint


@pytest.mark.parametrize(
    "name",
    ["file/capture", "n" * 300, "file", "a\0b"],
    ids=["below", "long", "file", "nul"],
)
def test_capture_folder_that_was_named_is_refused_before_the_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("in the way", "utf-8")
    asked: list[str] = []

    def never(request: ModelRequest) -> ModelReply:
        asked.append("asked")
        return ModelReply()

    config = {"mode": "capture", "captureDir": str(tmp_path / name)}
    with pytest.raises(ReenactError) as caught:
        run_agent(never, "hello", replay=config)
    assert caught.value.code == ("usage" if "\0" in name else "sink.unwritable")
    assert caught.value.hint
    assert asked == []


# Folders that hold something


def inputs(place: Path) -> list[str]:
    with reenact.open_recording(place) as source:
        return [event.data["input"] for event in source if event.type == "run_start"]


def test_existing_capture_folder_is_refused_by_default(tmp_path: Path) -> None:
    capture(tmp_path / "c").check()
    with pytest.raises(RecordingExists) as caught:
        capture(tmp_path / "c")
    assert "if_exists" in caught.value.hint
    assert inputs(tmp_path / "c") == ["hello"]


def test_existing_capture_folder_is_overwritten(tmp_path: Path) -> None:
    capture(tmp_path / "c").check()
    result = capture(tmp_path / "c", "again", ifExists="overwrite").check()
    assert (result.recording, inputs(tmp_path / "c")) == (tmp_path / "c", ["again"])


def test_existing_capture_folder_is_appended_to(tmp_path: Path) -> None:
    capture(tmp_path / "c").check()
    capture(tmp_path / "c", "again", if_exists="append").check()
    assert inputs(tmp_path / "c") == ["hello", "again"]


def test_new_capture_folder_is_made_next_to_an_existing_one(tmp_path: Path) -> None:
    places = [
        capture(tmp_path / "c", str(number), ifExists="new").check().recording
        for number in range(3)
    ]
    assert places == [tmp_path / "c", tmp_path / "c-2", tmp_path / "c-3"]
    assert [inputs(place) for place in places if place] == [["0"], ["1"], ["2"]]


def test_other_files_are_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(RecordingExists):
        capture(tmp_path / "c", ifExists="overwrite")
    assert (tmp_path / "c" / "notes.txt").read_text("utf-8") == "mine"


def test_replay_cannot_be_recorded_over_something(tmp_path: Path) -> None:
    capture(tmp_path / "c").check()
    config = {"mode": "replay", "replayManifestPath": str(tmp_path / "c")}
    with pytest.raises(UsageError, match="if_exists"):
        run_agent(model, "hello", replay={**config, "ifExists": "append"})
    into = {**config, "captureDir": str(tmp_path / "r"), "ifExists": "new"}
    places = [run_agent(model, "hello", replay=into).check().recording for _ in range(2)]
    assert places == [tmp_path / "r", tmp_path / "r-2"]


# Programs


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server(SERVES)
    yield server
    server.stop()


def test_program_runs_when_the_default_folder_cannot_be_created(
    server: Server, blocked: Path
) -> None:
    stage = Theatre(server, blocked)
    stage.write("program.py", "import sys\nprint('ran')\nsys.exit(3)\n")
    ran = stage.run("--report", "r.json", "--", sys.executable, "program.py")
    assert (ran.code, ran.out) == (3, b"ran\n")
    assert "reenact: warning: cannot write a recording at" in ran.err
    assert "hint: " in ran.err
    assert "--capture DIR" in ran.err
    report = json.loads((blocked / "r.json").read_bytes())
    assert (report["status"], report["exitCode"]) == ("error", 3)


@pytest.mark.parametrize("name", ["file/capture", "n" * 300], ids=["below", "long"])
def test_program_does_not_start_when_the_named_folder_cannot_be_created(
    server: Server, tmp_path: Path, name: str
) -> None:
    stage = Theatre(server, tmp_path)
    stage.write("file", "in the way")
    stage.write("program.py", "print('ran')\n")
    ran = stage.run("--capture", name, "--", sys.executable, "program.py")
    assert (ran.code, ran.out) == (2, b"")
    assert "cannot write a recording at" in ran.err
    assert "hint: " in ran.err
    assert "Traceback" not in ran.err
