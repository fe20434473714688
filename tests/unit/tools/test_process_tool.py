"""Commands in the background: what ``exec`` and ``process`` give, live and in a replay."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, PolicyRefused, tools
from reenact.errors import CommandFailed
from reenact.policy.model import BoundaryRule, Policy
from reenact.testing import memory_session
from reenact.tools.command import MOST, PENDING
from reenact.tools.process_tool import FINISHED, LONGEST, MOST_LINES, Background
from tests.unit.tools.stage import AGAIN, PASS

FOREVER = "exec sleep 600"


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    yield
    here = Background.here()
    here.kill_all()
    for name, _ in here:
        here.remove(name)


def start(command: str, **given: Any) -> str:
    """A command in the background: its id."""
    found = tools.exec(command, background=True, **given)
    assert found["status"] == "running"
    name: str = found["sessionId"]
    return name


def poll_to_end(name: str) -> list[dict[str, Any]]:
    """What polling gives until the command has ended."""
    found = [tools.process("poll", name, timeout=LONGEST)]
    while found[-1]["status"] == "running":
        found.append(tools.process("poll", name, timeout=LONGEST))
    return found


def is_there(group: int) -> bool:
    """Does anybody of the process group still run?"""
    found = [_facts(pid) for pid in os.listdir("/proc") if pid.isdecimal()]
    return any(state not in "ZX" for state, their in found if their == str(group))


def is_gone(group: int) -> bool:
    """Has everybody of the process group come to the end? A kill takes a moment to arrive."""
    return any(not is_there(group) for _ in range(2_000))


def _facts(pid: str) -> tuple[str, str]:
    """State and group of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return "X", ""
    state, _, group, *_ = text.rpartition(")")[2].split()
    return state, group


# Shapes


def test_a_command_in_the_background_is_running_and_then_has_ended() -> None:
    found = tools.exec("echo one; read x; echo got $x >&2; exit 3", background=True, workdir="/")
    name = found["sessionId"]
    assert sorted(found) == ["cwd", "pid", "sessionId", "startedAt", "status", "tail", "text"]
    assert (found["status"], found["cwd"], name in found["text"]) == ("running", "/", True)
    assert (found["pid"] > 0, found["startedAt"] > 1_700_000_000_000) == (True, True)
    first = tools.process("poll", name, timeout=LONGEST)
    assert first == {
        "status": "running",
        "sessionId": name,
        "name": "echo one; read x; echo got $x >&2; exit 3",
        "text": "one\n\nProcess still running.",
    }
    told = tools.process("write", name, data="it\n", eof=True)
    assert told["text"] == f"Wrote 3 bytes to session {name} (stdin closed)."
    last = poll_to_end(name)[-1]
    assert last.pop("durationMs") >= 0
    assert last.pop("text").endswith("Process exited with code 3.")
    assert last == {
        "status": "completed",
        "sessionId": name,
        "name": "echo one; read x; echo got $x >&2; exit 3",
        "exitCode": 3,
        "exitSignal": None,
        "timedOut": False,
        "truncated": False,
        "aggregated": "one\ngot it\n\n(Command exited with code 3)",
    }


def test_a_command_that_takes_long_goes_on_in_the_background(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    found = tools.exec("echo early; cat go", yieldMs=300, workdir=str(tmp_path))
    assert (found["status"], found["tail"]) == ("running", "early\n")
    name = found["sessionId"]
    told = tools.process("write", name, data="x")
    assert told == {
        "status": "failed",
        "text": f"Session {name} has no stdin that can be written to.",
    }
    tmp_path.joinpath("go").write_text("late\n", encoding="utf-8")
    assert poll_to_end(name)[-1]["aggregated"] == "early\nlate\n"
    assert tools.exec("echo a", yieldMs=None)["aggregated"] == "a\n"


def test_a_time_out_holds_in_the_background() -> None:
    last = poll_to_end(start(f"echo a; {FOREVER}", timeout=0.2))[-1]
    assert (last["status"], last["timedOut"], last["exitSignal"]) == ("failed", True, "SIGKILL")
    assert last["reason"] == "Command timed out after 0.2 seconds"
    assert last["text"].endswith("Process exited with a time-out.")
    last = poll_to_end(start(f"exec >&- 2>&-; {FOREVER}", timeout=0.2))[-1]
    assert last["timedOut"] is True


def test_killing_ends_all_that_it_has_started() -> None:
    found = tools.exec(f"sleep 600 & echo up; {FOREVER}", background=True)
    name = found["sessionId"]
    assert tools.process("poll", name, timeout=LONGEST)["text"].startswith("up")
    assert tools.process("kill", name)["status"] == "completed"
    assert is_gone(found["pid"])
    last = tools.process("poll", name)
    assert (last["status"], last["exitCode"], last["exitSignal"]) == ("failed", None, "SIGKILL")
    assert last["reason"] == "Command aborted by signal SIGKILL"
    assert tools.process("write", name)["text"] == f"No active session found for {name}."


def test_who_has_left_the_group_does_not_keep_it_running() -> None:
    """It holds the output open."""
    name = start("setsid sleep 5 & echo up; exec sleep 600")
    assert tools.process("poll", name, timeout=LONGEST)["text"].startswith("up")
    tools.process("kill", name)
    assert tools.process("poll", name)["status"] == "failed"


def test_what_is_there_is_listed_the_last_one_first() -> None:
    done, runs = start("true"), start(FOREVER, workdir="/")
    poll_to_end(done)
    found = tools.process("list")
    assert [(one["sessionId"], one["status"]) for one in found["sessions"]] == [
        (runs, "running"),
        (done, "completed"),
    ]
    running, ended = found["sessions"]
    assert (running["cwd"], running["pid"] > 0, ended["exitCode"]) == ("/", True, 0)
    assert found["text"].splitlines()[0] == f"{runs} running   :: {FOREVER}"
    assert tools.process("clear", runs)["status"] == "failed"
    assert tools.process("clear", done)["text"] == f"Cleared session {done}."
    assert tools.process("remove", runs)["text"] == f"Removed session {runs}."
    assert tools.process("list")["sessions"] == []
    assert is_gone(running["pid"])


def test_the_log_gives_lines() -> None:
    name = start("seq 1 500")
    poll_to_end(name)
    last = tools.process("log", name)
    assert last["text"].startswith("301\n302\n")
    assert last["text"].endswith(
        f"500\n\n[the last {MOST_LINES} of 500 lines; offset and limit give others]"
    )
    assert (last["totalLines"], last["totalChars"], last["truncated"]) == (500, 1_892, False)
    assert tools.process("log", name, limit=2)["text"] == "499\n500"
    assert tools.process("log", name, offset=3, limit=2)["text"] == "4\n5"
    assert tools.process("log", name, offset=498)["text"] == "499\n500"
    assert tools.process("log", name, offset=900)["text"] == "(no output yet)"


def test_output_is_kept_within_limits_and_need_not_be_text() -> None:
    name = start(f"head -c {MOST + 7} /dev/zero | tr '\\0' x; printf 'a\\377b'")
    parts = poll_to_end(name)
    last = parts[-1]
    assert last["truncated"] is True
    assert last["aggregated"].startswith("[10 characters left out]\nxxx")
    assert last["aggregated"].endswith("xa\ufffdb")
    assert all(len(one["text"]) < PENDING + 100 for one in parts)


@pytest.mark.parametrize("action", ["poll", "log", "write", "submit", "kill", "clear", "remove"])
def test_what_is_not_there_is_a_result(action: str) -> None:
    for name, text in [("exec-none", "session found for exec-none."), (None, "is required")]:
        found = tools.process.call({"action": action, "sessionId": name})
        assert found["status"] == "failed"
        assert text in found["text"]


def test_only_so_many_that_have_ended_are_kept() -> None:
    names = [start("read line") for _ in range(FINISHED + 3)]
    for name in names:
        tools.process("write", name, data="\n")
        poll_to_end(name)
    start(FOREVER)
    assert tools.process("poll", names[0])["status"] == "failed"
    assert tools.process("poll", names[-1])["status"] == "completed"


def test_one_that_does_not_take_what_it_is_told() -> None:
    command = Background.here().get(start(FOREVER))
    assert command is not None
    wrong = command.tell(b"x" * 300_000, last=False, seconds=0.05)
    assert wrong.startswith("has taken only ")
    assert wrong.endswith(" of 300,000 bytes")


def test_what_a_model_is_told_of_them() -> None:
    told = tools.process.definition
    assert (told["name"], told["parameters"]["required"]) == ("process", ["action"])
    actions = ["list", "poll", "log", "write", "submit", "kill", "clear", "remove"]
    assert sorted(told["parameters"]["properties"]["action"]["enum"]) == sorted(actions)


# A terminal


def test_a_command_in_a_terminal() -> None:
    found = tools.exec("test -t 0 -a -t 1 -a -t 2 && stty size; echo $TERM; exit 2", pty=True)
    assert found["aggregated"] == "30 120\r\nxterm-256color\r\n\n(Command exited with code 2)"
    with pytest.raises(CommandFailed, match="Command not found"):
        tools.exec("no-such-command-here", pty=True)


def test_a_terminal_is_typed_into() -> None:
    name = start("printf 'who? '; read who </dev/tty; echo hi $who; cat", pty=True)
    assert tools.process("poll", name, timeout=LONGEST)["text"].startswith("who?")
    tools.process("write", name, data="bo")
    tools.process("submit", name)
    said = ""
    while "hi bo" not in said:
        said += tools.process("poll", name, timeout=LONGEST)["text"]
    tools.process("write", name, eof=True)
    assert poll_to_end(name)[-1]["status"] == "completed"


# Recorded and replayed


def record(body: Callable[[], Any], place: Path, **given: Any) -> Any:
    with reenact.session(capture=place, mode="record", **given):
        return body()


def replay(body: Callable[[], Any], place: Path, **given: Any) -> Any:
    with reenact.session(capture=place, strict=True, **given):
        return body()


def recorded(place: Path, kind: str) -> list[dict[str, Any]]:
    with reenact.open_recording(place) as events:
        return [event.data for event in events if event.type == kind]


def _story() -> list[Any]:
    found: list[Any] = []
    name = start("echo one; read x; echo got $x; exit 3")
    found += [name, tools.process("poll", name, timeout=LONGEST)]
    found += [tools.process("write", name, data="it\n", eof=True), *poll_to_end(name)]
    found += [tools.process("log", name), tools.process("clear", name)]
    found.append(tools.process("poll", name))
    name = start(f"echo up; {FOREVER}")
    found += [tools.process("kill", name), tools.process("poll", name)]
    name = start("printf 'who? '; read who; echo hi $who", pty=True)
    found += [tools.process("poll", name, timeout=LONGEST)]
    found += [tools.process("write", name, data="me\n"), *poll_to_end(name)]
    found += [tools.exec("seq 1 30000", pty=True)["aggregated"], *_late()]
    for one in found:
        if isinstance(one, dict):
            one.pop("durationMs", None)
    return found


def _late() -> list[Any]:
    with pytest.raises(CommandFailed) as caught:
        tools.exec(f"echo a; {FOREVER}", timeout=0.2)
    return [str(caught.value), start(FOREVER)]


def _refuse(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("a process is started")


def test_a_replay_gives_the_same_and_runs_nothing(tmp_path: Path) -> None:
    made = record(_story, tmp_path / "c")
    assert made[0] == "exec-0.1"
    there = len(os.listdir("/proc/self/task"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("subprocess.Popen.__init__", _refuse)
        assert replay(_story, tmp_path / "c") == made
    assert len(os.listdir("/proc/self/task")) <= there
    assert {one["ok"] for one in recorded(tmp_path / "c", "tool_result")} == {True, False}


def test_made_again_everything_is_seen_as_it_was(tmp_path: Path) -> None:
    made = record(_story, tmp_path / "c")
    assert replay(_story, tmp_path / "c", policy=AGAIN) == made


def test_a_session_ends_what_it_has_started(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        found = tools.exec(f"sleep 600 & {FOREVER}", background=True)
        assert is_there(found["pid"])
    assert is_gone(found["pid"])
    ended = [one for one in recorded(tmp_path / "c", "nondeterministic") if one.get("op") == "sh"]
    assert [one["response"]["exitCode"] for one in ended] == [-9]


def test_commands_of_another_session_are_not_seen() -> None:
    mine = start(FOREVER)
    with memory_session():
        yours = start(FOREVER)
        assert [one["sessionId"] for one in tools.process("list")["sessions"]] == [yours]
        assert tools.process("poll", mine)["status"] == "failed"
    assert mine in [one["sessionId"] for one in tools.process("list")["sessions"]]


def test_one_that_is_polled_otherwise_is_told_so(tmp_path: Path) -> None:
    def body(name: str = "") -> None:
        found = start("true")
        tools.process("poll", name or found)

    record(body, tmp_path / "c")
    with pytest.raises(DivergenceError) as caught:
        replay(lambda: body("exec-9"), tmp_path / "c")
    assert "$.args.sessionId" in str(caught.value)


def test_polls_that_are_made_again_need_no_command(tmp_path: Path) -> None:
    """Only ``process`` is: nobody has started what it asks for."""
    polls = BoundaryRule(capability="tool.call", operation="process", action="re-execute")

    def body() -> list[Any]:
        return [one["text"] for one in poll_to_end(start("echo a; exit 1"))]

    made = record(body, tmp_path / "c")
    policy = Policy(id="polls", boundaries=(polls,))
    assert replay(body, tmp_path / "c", policy=policy) == made


def test_tools_and_processes_that_pass_are_not_recorded(tmp_path: Path) -> None:
    def body() -> str:
        return str(poll_to_end(start("echo a"))[-1]["aggregated"])

    assert record(body, tmp_path / "c", policy=PASS) == "a\n"
    assert recorded(tmp_path / "c", "tool_call") == []
    rule = BoundaryRule(capability="process.exec", action="pass")
    again = BoundaryRule(capability="tool.call", action="re-execute")
    policy = Policy(id="live", boundaries=(rule, again), allow_passthrough=True)

    def once() -> str:
        return str(tools.exec("echo b")["aggregated"])

    assert record(once, tmp_path / "d", policy=policy) == "b\n"
    assert recorded(tmp_path / "d", "nondeterministic") == []
    assert replay(once, tmp_path / "d", policy=policy) == "b\n"


def test_processes_that_may_not_be_started_are_refused(tmp_path: Path) -> None:
    rule = BoundaryRule(capability="process.exec", action="block")
    with pytest.raises(PolicyRefused):
        policy = Policy(id="none", boundaries=(rule,))
        record(lambda: start("true"), tmp_path / "c", policy=policy)


def test_an_agent_may_run_several_at_a_time(tmp_path: Path) -> None:
    def body() -> dict[int, str]:
        found: dict[int, str] = {}

        def one(number: int) -> None:
            name = start(f"echo {number}")
            found[number] = name + str(poll_to_end(name)[-1]["aggregated"])

        threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    made = record(body, tmp_path / "c")
    assert [made[number][-2] for number in range(4)] == ["0", "1", "2", "3"]
    assert replay(body, tmp_path / "c") == made
    assert replay(body, tmp_path / "c", policy=AGAIN) == made
