"""However a program ends, and whoever ends it: what was recorded is closed, whole and replayable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from reenact import verify
from tests.integration.running import PATIENCE, Ran, Started, Theatre, reenact_command

pytestmark = pytest.mark.slow

PROGRAM = """
    import os, signal, sys
    from ask import ask

    told = open("/proc/self/environ").read()
    if "HANDLES=1" in told:
        signal.signal(signal.SIGTERM, lambda *_: (print("asked to end"), sys.exit(5)))
    print(ask("/json"), flush=True)
    print("ready", os.getpid(), flush=True)
    if "WAITS=1" in told:
        signal.pause()
"""
"""Waits for its end, if it is told to; the replay is not. What it is told is no part of what is
recorded, as a variable of its environment would be."""

COMMAND = ("--capture", "c", "--", sys.executable, "program.py")


@pytest.fixture(autouse=True)
def _program(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)


def _check_replays(theatre: Theatre, number: int = 1) -> None:
    """The recording is whole, and goes up to the end of the program."""
    verify(theatre.folder / "c")
    assert len(theatre.calls()) == number
    replayed = theatre.replay("program.py")
    assert replayed.code == 0
    assert replayed.summary.endswith(", 0 live, 0 unused")


def _ended(theatre: Theatre, number: int, *, everybody: bool, **environ: str) -> Ran:
    with theatre.started(*COMMAND, WAITS="1", **environ) as run:
        run.wait_for("ready")
        if everybody:
            run.signal_all(number)
        else:
            run.signal(number)
        return run.end()


def test_interrupted_at_the_keyboard(theatre: Theatre) -> None:
    """The terminal tells everybody; the program hears of it once."""
    code = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    command = [sys.executable, "-c", code, *reenact_command("run", *COMMAND)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=theatre.folder,
        env=theatre.environ(WAITS="1"),
    ) as process:
        assert process.stdin is not None
        started = Started(process)
        started.wait_for("ready")
        process.stdin.write(b"\x03")
        process.stdin.flush()
        ran = started.end()
    assert ran.code == 130
    assert ran.out.count(b"KeyboardInterrupt") == 1
    assert b"reenact: recorded 1 call in 1 lane" in ran.out
    _check_replays(theatre)


@pytest.mark.parametrize("everybody", [True, False], ids=["all processes", "reenact alone"])
def test_interrupted(everybody: bool, theatre: Theatre) -> None:
    ran = _ended(theatre, signal.SIGINT, everybody=everybody)
    assert ran.code == 130
    assert "KeyboardInterrupt" in ran.err
    assert ran.summary.startswith("recorded 1 call in 1 lane")
    _check_replays(theatre)


def test_told_to_end(theatre: Theatre) -> None:
    ran = _ended(theatre, signal.SIGTERM, everybody=False)
    assert ran.code == 143
    assert ran.summary.startswith("recorded 1 call in 1 lane")
    _check_replays(theatre)


def test_told_to_end_and_says_goodbye(theatre: Theatre) -> None:
    ran = _ended(theatre, signal.SIGTERM, everybody=False, HANDLES="1")
    assert (ran.code, ran.out) == (5, b"asked to end\n")
    _check_replays(theatre)


def test_a_program_that_is_killed(theatre: Theatre) -> None:
    with theatre.started(*COMMAND, WAITS="1") as run:
        os.kill(int(run.wait_for("ready")), signal.SIGKILL)
        ran = run.end()
    assert ran.code == 137
    _check_replays(theatre)


def test_reenact_itself_is_killed(theatre: Theatre) -> None:
    with theatre.started(*COMMAND, WAITS="1") as run:
        program = int(run.wait_for("ready"))
        run.signal(signal.SIGKILL)
        run.process.wait(PATIENCE)
        os.kill(program, signal.SIGKILL)
        assert run.end().code == -signal.SIGKILL
    replayed = theatre.replay("program.py")
    assert (replayed.code, replayed.out) == (3, b"")
    assert "hint: reenact recover" in replayed.err
    done = subprocess.run(
        reenact_command("recover", theatre.folder / "c"), capture_output=True, check=False
    )
    assert done.returncode == 0
    verify(theatre.folder / "c")
    assert theatre.replay("program.py").code == 0


@pytest.mark.parametrize("how", ["_exit(4)", "abort()"])
def test_a_crash_leaves_a_whole_recording(how: str, theatre: Theatre) -> None:
    """In the middle of an answer, too: what came of it is there."""
    theatre.write(
        "program.py",
        f"""
        import os, sys
        from urllib.request import urlopen
        from ask import ask
        print(ask("/json"), flush=True)
        answer = urlopen(os.environ["SERVER"] + "/lines?count=3")
        print(answer.readline(), flush=True)
        os.{how}
        """,
    )
    recorded = theatre.record("program.py")
    assert recorded.code == {"_exit(4)": 4, "abort()": 134}[how]
    verify(theatre.folder / "c")
    assert len(theatre.calls()) == 2
    assert theatre.replay("program.py").own == recorded.own


def test_a_child_outlives_the_program(theatre: Theatre) -> None:
    """The recording is closed when both have ended."""
    theatre.write(
        "child.py",
        """
        import os, sys
        from ask import ask
        ask("/json?child")
        os.write(1, b"started")
        while os.getppid() == int(sys.argv[1]):
            os.sched_yield()
        os.write(2, b"late: " + ask("/json?late").encode())
        """,
    )
    theatre.write(
        "program.py",
        """
        import os, subprocess, sys
        from ask import ask
        child = subprocess.Popen([sys.executable, "child.py", str(os.getpid())], stdout=subprocess.PIPE)
        child.stdout.read(7)
        print(ask("/json"), flush=True)
        os._exit(0)
        """,
    )
    recorded = theatre.record("program.py")
    assert "late: {" in recorded.err
    verify(theatre.folder / "c")
    assert [path for _, path in theatre.asked()] == ["/json", "/json?child", "/json?late"]


def test_a_disk_that_fills_up_ends_the_recording_and_not_the_program(theatre: Theatre) -> None:
    theatre.write(
        "program.py",
        """
        import resource, sys
        from ask import ask
        sys.dont_write_bytecode = True  # Python 3.11 would keep a bytecode file that the limit has cut short.
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        for number in range(30):
            ask(f"/echo?{number}", '{"prompt": "%s"}' % ("word " * 100))
        print("all", number + 1)
        """,
    )
    recorded = theatre.record("program.py")
    assert (recorded.code, recorded.out) == (0, b"all 30\n")
    assert "recording stopped after event" in recorded.err
    verify(theatre.folder / "c")
    kept = len(theatre.calls())
    assert 0 < kept < 30
    replayed = theatre.replay("program.py")
    assert replayed.code == 1
    assert "event_unexpected" in replayed.err
    assert replayed.summary.startswith(f"replayed {kept} calls")
