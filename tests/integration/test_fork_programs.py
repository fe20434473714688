"""``reenact fork``: whole programs, byte for byte the same up to a call, and then live."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reenact
from tests.integration.running import PATIENCE, Ran, Theatre, reenact_command

PROGRAM = """
    import random, sys, time
    from ask import ask
    for number in range(4):
        print(number, ask(f"/json?{number}"), time.time(), random.random(), flush=True)
    sys.exit(7 if "fail" in sys.argv else 0)
"""

FAMILY = """
    import multiprocessing, random, subprocess, sys, time
    from concurrent.futures import ProcessPoolExecutor
    from ask import ask

    def work(name):
        return [ask(f"/json?{name}.{number}") + str(random.random()) for number in range(2)]

    def child():
        print("child", ask("/json?child"), time.time(), flush=True)

    if __name__ == "__main__":
        print(ask("/json?first"), flush=True)
        echo = "for line in __import__('sys').stdin: print('echo', line, end='', flush=True)"
        process = subprocess.Popen(
            [sys.executable, "-c", echo], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

        def say(word):
            process.stdin.write(word + "\\n")
            process.stdin.flush()
            return process.stdout.readline()

        print(say("one"), flush=True)
        with ProcessPoolExecutor(2) as pool:
            print(list(pool.map(work, range(2))), flush=True)
        print(say("two"), flush=True)
        started = multiprocessing.Process(target=child)
        started.start()
        started.join()
        print(say("three"), flush=True)
        process.stdin.close()
        process.wait()
        print(ask("/json?last"), flush=True)
"""


def fork(theatre: Theatre, *words: str | Path, **environ: str) -> Ran:
    """``reenact fork`` with these words, in the folder of the theatre."""
    done = subprocess.run(
        reenact_command("fork", *words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=theatre.folder,
        env=theatre.environ(**environ),
        timeout=PATIENCE,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def lines(ran: Ran) -> list[bytes]:
    return ran.out.splitlines()


def test_a_program_is_forked_and_the_fork_replays_byte_for_byte(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    recorded = theatre.record("program.py")
    connections = theatre.server.connections
    forked = fork(theatre, "c", "--at", "call:3", "--into", "f", "--", sys.executable, "program.py")
    assert (forked.code, len(lines(forked))) == (0, 4)
    assert theatre.server.connections == connections + 2
    assert lines(forked)[:2] == lines(recorded)[:2]
    assert not set(lines(forked)[2:]) & set(lines(recorded)[2:])
    assert " (nondeterministic network GET), call 3 of 4\n" in forked.err
    assert "reenact: forked: 4 calls in 1 lane, 2 live, to f" in forked.err
    replayed = theatre.replay("program.py", name="f")
    assert (replayed.code, replayed.out) == (0, forked.out)
    assert ", 0 live, 0 unused" in replayed.summary


def test_the_exit_code_is_the_programs_own(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.record("program.py", "fail")
    command = ("--", sys.executable, "program.py", "fail")
    forked = fork(theatre, "c", "--at", "call:2", "--into", "f", *command)
    assert forked.code == 7
    with reenact.open_recording(theatre.folder / "f") as source:
        *_, end = source
        assert end.data == {"status": "error", "exitCode": 7}
    assert theatre.replay("program.py", "fail", name="f").own[:2] == (7, forked.out)


def test_without_a_place_the_fork_is_the_last_run(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.record("program.py")
    forked = fork(theatre, "c", "--at", "call:4", "--quiet", "--", sys.executable, "program.py")
    replayed = theatre.replay("program.py", name="last")
    assert replayed.out == forked.out
    again = fork(theatre, "last", "--at", "call:4", "--", sys.executable, "program.py")
    assert lines(again)[:3] == lines(forked)[:3]
    assert again.code == 0


def test_another_program_than_the_recorded_one_diverges(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.record("program.py")
    theatre.write("program.py", PROGRAM.replace("/json?", "/json?other"))
    connections = theatre.server.connections
    command = ("--report", "r.json", "--", sys.executable, "program.py")
    forked = fork(theatre, "c", "--at", "call:3", "--into", "f", *command)
    assert forked.code == 1
    assert "divergence: event_payload_mismatch" in forked.err
    assert theatre.server.connections == connections
    assert theatre.report("r.json")["status"] == "diverged"
    assert not (theatre.folder / "f").exists()


def test_a_program_that_never_comes_to_the_point_is_no_fork(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.record("program.py")
    theatre.write("program.py", "print('nothing')")
    forked = fork(theatre, "c", "--at", "call:3", "--into", "f", "--", sys.executable, "program.py")
    assert (forked.code, forked.out) == (1, b"nothing\n")
    assert "the program ended (with 0) before event " in forked.err
    assert not (theatre.folder / "f").exists()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("at", ["call:1", "call:4", "network:5", "process:1", "call:8"])
def test_processes_of_all_kinds(stage: Theatre, at: str) -> None:
    """Others' calls before the point, by their place in the log, are served; after it live."""
    if not (stage.folder / "c").exists():
        stage.write("family.py", FAMILY)
        stage.record("family.py")
    place = at.replace(":", "-")
    command = ("--into", place, "--", sys.executable, "family.py")
    forked = fork(stage, "c", "--at", at, *command)
    assert forked.code == 0, forked.err
    replayed = stage.replay("family.py", name=place)
    assert replayed.own[:2] == (0, forked.out)
    assert ", 0 live, 0 unused" in replayed.summary


def test_a_net_tape_is_forked_into_a_net_tape(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.run("--record-net-to", "t.jsonl", "--", sys.executable, "program.py")
    command = ("--into", "f.jsonl", "--", sys.executable, "program.py")
    forked = fork(theatre, "t.jsonl", "--at", "call:3", *command)
    assert forked.code == 0, forked.err
    assert (theatre.folder / "f.jsonl").is_file()
    assert not (theatre.folder / "f.jsonl.capture").exists()
    connections = theatre.server.connections
    again = theatre.run("--replay-net-from", "f.jsonl", "--", sys.executable, "program.py")
    assert theatre.server.connections == connections
    assert _answers(again) == _answers(forked)


def _answers(ran: Ran) -> list[Any]:
    """What came over the network; the rest of each line is drawn anew."""
    return [line.split(b"}")[0] for line in lines(ran)]


def test_a_fork_that_is_killed_after_the_point_is_there_to_be_recovered(theatre: Theatre) -> None:
    theatre.write("program.py", PROGRAM)
    theatre.record("program.py")
    theatre.write("program.py", PROGRAM.replace("sys.exit(", "__import__('os').kill(0, 9), ("))
    process = subprocess.run(
        [
            *reenact_command("fork", "c", "--at", "call:3", "--into", "f", "--", sys.executable),
            "program.py",
        ],
        capture_output=True,
        cwd=theatre.folder,
        env=theatre.environ(),
        timeout=PATIENCE,
        check=False,
        start_new_session=True,
    )
    assert process.returncode == -9
    ran = subprocess.run(
        reenact_command("recover", "f"),
        capture_output=True,
        cwd=theatre.folder,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert len(theatre.calls("f")) == 4
