"""``reenact.tools.exec``: what a command gives, and when it has failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact import tools
from reenact.errors import CommandFailed
from reenact.tools.command import MOST, Output, Tail
from tests.unit.tools.stage import events, record, replay


def _failed(command: str, **given: Any) -> CommandFailed:
    with pytest.raises(CommandFailed) as caught:
        tools.exec(command, **given)
    return caught.value


def test_output_and_errors_are_one_text_in_their_order() -> None:
    found = tools.exec("echo a; echo b >&2; echo c")
    assert found.pop("durationMs") >= 0
    assert found == {
        "status": "completed",
        "exitCode": 0,
        "exitSignal": None,
        "timedOut": False,
        "truncated": False,
        "aggregated": "a\nb\nc\n",
    }


@pytest.mark.parametrize(
    "command, text",
    [
        ("echo a; exit 3", "a\n\n(Command exited with code 3)"),
        ("exit 1", "(Command exited with code 1)"),
    ],
)
def test_another_exit_code_than_0_is_a_result(command: str, text: str) -> None:
    found = tools.exec(command)
    assert (found["status"], found["aggregated"]) == ("completed", text)


@pytest.mark.parametrize(
    "command, reason, code, signal",
    [
        ("no-such-command-here", "Command not found", 127, None),
        ("./plain", "Command not executable (permission denied)", 126, None),
        ("kill -9 $$", "Command aborted by signal SIGKILL", None, "SIGKILL"),
    ],
)
def test_what_could_not_be_run_to_its_end_has_failed(
    command: str, reason: str, code: Any, signal: Any, tmp_path: Path
) -> None:
    tmp_path.joinpath("plain").write_text("echo", encoding="utf-8")
    error = _failed(command, workdir=str(tmp_path))
    assert str(error).endswith(reason)
    assert error.details["status"] == "failed"
    assert (error.details["exitCode"], error.details["exitSignal"]) == (code, signal)
    assert error.details["cwd"] == str(tmp_path)


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started() -> None:
    error = _failed("echo early; sleep 600 & sleep 600", timeout=0.2)
    assert str(error) == "early\n\n\nCommand timed out after 0.2 seconds"
    assert (error.details["timedOut"], error.details["exitSignal"]) == (True, "SIGKILL")


def test_one_that_closes_its_output_and_goes_on_is_waited_for() -> None:
    assert tools.exec("exec >&- 2>&-; exit 4")["exitCode"] == 4
    error = _failed("exec >&- 2>&-; sleep 600", timeout=0.2)
    assert error.details["timedOut"] is True


def test_long_output_is_cut_at_its_beginning() -> None:
    found = tools.exec(f"head -c {MOST + 7} /dev/zero | tr '\\0' x; echo end")
    assert found["truncated"] is True
    assert found["aggregated"].startswith("[11 characters left out]\nxxx")
    assert found["aggregated"].endswith("xend\n")
    assert len(found["aggregated"]) < MOST + 40


def test_the_environment_is_the_programs_and_what_is_given() -> None:
    assert tools.exec("echo $WORD", env={"WORD": "hi"})["aggregated"] == "hi\n"
    assert tools.exec("pwd", workdir="/")["aggregated"] == "/\n"


@pytest.mark.parametrize(
    "name", ["PATH", "Path", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "BASH_ENV"]
)
def test_names_that_change_what_is_run_are_refused(name: str) -> None:
    error = _failed("true", env={name: "x"})
    assert f"{name!r} cannot be set" in str(error)


@pytest.mark.parametrize("given", [{"workdir": "/no/such/folder"}, {"command": "a\0b"}])
def test_what_cannot_be_started_has_failed(given: dict[str, Any]) -> None:
    error = _failed(given.pop("command", "true"), **given)
    assert str(error).startswith("the command could not be started")


def test_a_failure_comes_again_with_its_details() -> None:
    def body() -> Any:
        error = _failed("echo a; kill -15 $$")
        return str(error), error.details

    made, source = record(body)
    assert replay(source, body) == made
    (result,) = events(source, "tool_result")
    assert result["volatile"] == ["$.error.state.details.durationMs"]


def test_a_long_failure_is_kept_whole() -> None:
    def body() -> Any:
        error = _failed("head -c 100000 /dev/zero | tr '\\0' x; kill -15 $$")
        return str(error), error.details

    made, source = record(body)
    assert made[1]["truncated"] is True
    assert replay(source, body) == made


def test_what_a_model_is_told() -> None:
    told = tools.exec.definition
    assert told["name"] == "exec"
    names = ["background", "command", "env", "pty", "timeout", "workdir", "yieldMs"]
    assert sorted(told["parameters"]["properties"]) == names
    assert told["parameters"]["required"] == ["command"]


# The end of a text


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_end_of_a_text_however_it_is_cut(size: int) -> None:
    text = "aä€😀" * 5
    raw = text.encode()
    output = Output()
    for start in range(0, len(raw), size):
        output.add(raw[start : start + size])
    assert (output.all.text(10), output.tail(3)) == (
        f"[10 characters left out]\n{text[-10:]}",
        text[-3:],
    )
    tail = Tail(10)
    for start in range(0, len(text), size):
        tail.add(text[start : start + size])
    assert tail.text() == output.all.text(10)


def test_a_short_text_is_whole_and_a_broken_character_is_shown() -> None:
    output = Output()
    output.add(b"abc\xe2\x82")
    assert (output.take_new(), output.has_news) == ("abc", False)
    output.end()
    assert output.all.text() == "abc\ufffd"
    assert output.all.text(2) == "[2 characters left out]\nc\ufffd"
    assert (output.take_new(), output.has_news) == ("\ufffd", False)
