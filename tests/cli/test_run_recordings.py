"""``reenact run``: where recordings go, how they are replaced and added to, policies."""

from __future__ import annotations

import sys

import pytest

from tests.cli.conftest import Run
from tests.cli.programs import COMMAND
from tests.cli.samples import everything_in, flip
from tests.integration.running import Ran, Theatre
from tests.unit.policy.sets import POLICY, put_set

# Where recordings go


def test_without_a_flag_it_is_captured_and_the_last_one_is_found(theatre: Theatre) -> None:
    first = theatre.run(*COMMAND)
    second = theatre.run(*COMMAND[1:])  # without the dashes, too
    runs = sorted((theatre.folder / ".reenact" / "runs").iterdir())
    ignored, *places = runs
    assert (ignored.name, ignored.read_text("utf-8")) == (".gitignore", "*\n")
    for place, ran in zip(places, (first, second), strict=True):
        assert ran.summary == f"recorded 1 call in 1 lane to .reenact/runs/{place.name}"
    assert first.out != second.out
    assert theatre.replay("program.py", name="last").out == second.out


def test_an_existing_recording_is_not_replaced_unasked(copy: Theatre) -> None:
    before = everything_in(copy.folder / "c")
    connections = copy.server.connections
    ran = copy.run("--capture", "c", *COMMAND)
    assert ran.code == 2
    assert "already" in ran.err
    assert "--overwrite" in ran.err
    assert everything_in(copy.folder / "c") == before
    assert copy.server.connections == connections


def test_overwrite(copy: Theatre, recorded: Ran) -> None:
    ran = copy.run("--capture", "c", "--overwrite", *COMMAND, "two")
    assert b"?two" in ran.out
    assert copy.replay("program.py", "two").own == ran.own


BOTH = """
    from ask import ask
    for asked in ("one", "two"):
        print(ask(f"/json?{asked}"), hash("x"))
"""


def test_append(copy: Theatre, recorded: Ran) -> None:
    ran = copy.run("--capture", "c", "--append", *COMMAND, "two")
    assert b"?two" in ran.out
    assert [path for _, path in copy.asked()] == ["/json?one", "/json?two"]
    copy.write("both.py", BOTH.replace(', hash("x")', ""))
    assert copy.replay("both.py").own == (0, recorded.out + ran.out, "")


def test_record_missing(copy: Theatre, recorded: Ran) -> None:
    """With the recorded hash seed; and what was recorded stays as it was."""
    copy.write("both.py", BOTH)
    connections = copy.server.connections
    command = ("--", sys.executable, "both.py")
    ran = copy.run("--capture", "c", "--mode", "record_missing", *command)
    first, second = ran.out.splitlines()
    assert first.startswith(recorded.out.rstrip())
    assert first.split()[-1] == second.split()[-1]
    assert copy.server.connections == connections + 1
    assert copy.replay("both.py").own == ran.own


@pytest.mark.parametrize("how", [("--append",), ("--mode", "record_missing")], ids=" ".join)
def test_what_is_added_to_nothing_is_a_recording(how: tuple[str, ...], theatre: Theatre) -> None:
    """Of all processes."""
    code = "import subprocess, sys; subprocess.run([sys.executable, 'program.py'])"
    ran = theatre.run("--capture", "c", *how, "--", sys.executable, "-c", code)
    assert ran.summary.startswith("recorded 2 calls in 2 lanes to ")
    assert theatre.replay(sys.executable, "-c", code).own == ran.own


@pytest.mark.parametrize("how", [("--append",), ("--mode", "record_missing")], ids=" ".join)
def test_only_the_first_process_can_add(how: tuple[str, ...], copy: Theatre) -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, 'program.py'])"
    ran = copy.run("--capture", "c", *how, "--", sys.executable, "-c", code)
    assert b"?one" in ran.out
    assert "only the first process can add to a recording" in ran.err
    assert [path for _, path in copy.asked()] == ["/json?one"]


def test_nothing_is_added_to_what_cannot_be_read(
    copy: Theatre, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flip(copy.folder / "c" / "events.jsonl", b"target")
    monkeypatch.chdir(copy.folder)
    ran = run("run", "--capture", "c", "--mode", "record_missing", *COMMAND)
    assert ran.code == 3
    assert "line" in ran.err


def test_a_program_that_is_killed_adds_nothing(copy: Theatre) -> None:
    before = everything_in(copy.folder / "c")
    copy.write("program.py", "import os\nfrom ask import ask\nask('/json?two')\nos.abort()")
    ran = copy.run("--capture", "c", "--append", *COMMAND)
    assert ran.code == 134
    assert "is unchanged, because the program was killed" in ran.err
    assert everything_in(copy.folder / "c") == before


def test_a_program_that_leaves_at_once_adds_what_it_did(copy: Theatre) -> None:
    copy.write("program.py", "import os\nfrom ask import ask\nask('/json?two')\nos._exit(6)")
    ran = copy.run("--capture", "c", "--append", *COMMAND)
    assert (ran.code, ran.own[2]) == (6, "")
    assert [path for _, path in copy.asked()] == ["/json?one", "/json?two"]


def test_rewrite(copy: Theatre) -> None:
    before = everything_in(copy.folder / "c")
    failed = copy.run("--capture", "c", "--mode", "rewrite", *COMMAND, "two", CODE="3")
    assert failed.code == 3
    assert "is unchanged, because the program failed" in failed.err
    assert everything_in(copy.folder / "c") == before
    ran = copy.run("--capture", "c", "--mode", "rewrite", *COMMAND, "two")
    assert ran.code == 0
    assert copy.replay("program.py", "two").own == ran.own


# Policies and boundaries


def test_a_boundary_that_is_let_through_is_counted(theatre: Theatre) -> None:
    flags = ("--allow", "network", "--report", "r.json")
    connections = theatre.server.connections
    recorded = theatre.run("--capture", "c", *flags, *COMMAND)
    assert recorded.summary.startswith("recorded 0 calls in 0 lanes to ")
    assert recorded.summary.endswith(", 1 passed through net.fetch GET")
    replayed = theatre.run("--replay", "c", *flags, *COMMAND)
    assert replayed.code == 0
    assert replayed.out != recorded.out
    assert theatre.server.connections == connections + 2
    assert replayed.summary.endswith(", 0 live, 0 unused, 1 passed through net.fetch GET")
    assert theatre.report("r.json")["counts"]["passed"] == {"net.fetch GET": 1}


def test_a_policy_says_what_does_not_matter(copy: Theatre, recorded: Ran) -> None:
    ignoring = {**POLICY, "id": "loose", "ignore": {"query": ["one", "two"]}}
    put_set(copy.folder, ignoring, modes=["replay"])
    ran = copy.run("--replay", "c", "--policy", "loose", *COMMAND, "two")
    assert ran.own == recorded.own, ran
    refused = copy.run("--capture", "d", "--policy", "loose", *COMMAND)
    assert refused.code == 4, refused
    assert "loose" in refused.err
    assert not (copy.folder / "d").exists()


def test_a_policy_that_refuses_the_address(theatre: Theatre) -> None:
    """Recorded as a refusal, and replayed as one; nobody was asked."""
    closed = {**POLICY, "id": "closed", "net": {"domains": ["example.org"]}}
    put_set(theatre.folder, closed)
    connections = theatre.server.connections
    recorded = theatre.run("--capture", "c", "--policy", "closed", *COMMAND)
    assert recorded.code == 1
    assert "PolicyRefused" in recorded.err
    replayed = theatre.run("--replay", "c", "--policy", "closed", *COMMAND)
    assert replayed.own == recorded.own
    assert theatre.server.connections == connections
