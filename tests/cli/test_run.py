"""``reenact run``: flags, exit codes, the summary line, the report."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.programs import COMMAND
from tests.cli.samples import flip
from tests.integration.running import Ran, Theatre

# What makes no sense

PLACES = {
    "--capture": "c",
    "--replay": "c",
    "--record-net-to": "t.jsonl",
    "--replay-net-from": "t.jsonl",
    "--live": "",
}
PAIRS = [(one, other) for one in PLACES for other in PLACES if one < other]


def _said(flag: str) -> list[str]:
    return [word for word in (flag, PLACES[flag]) if word]


@pytest.mark.parametrize("one, other", PAIRS)
def test_at_most_one_flag_says_what_to_do(
    one: str, other: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("run", *_said(one), *_said(other), *COMMAND)
    assert ran.code == 2
    assert one in ran.err
    assert other in ran.err
    assert "exclude each other" in ran.err
    assert list(tmp_path.iterdir()) == []


MISUSE: dict[str, tuple[list[str], str]] = {
    "no program": (["--capture", "c"], "no program is given"),
    "nothing": (["--capture", "c", "--"], "no program is given"),
    "mode with replay": (["--replay", "c", "--mode", "rewrite"], "--mode goes with recording"),
    "mode with live": (["--live", "--mode", "rewrite"], "--mode goes with recording"),
    "overwrite with replay": (["--replay", "c", "--overwrite"], "--overwrite goes with recording"),
    "overwrite with live": (["--live", "--overwrite"], "--overwrite goes with recording"),
    "append with a tape": (["--replay-net-from", "t", "--append"], "--append goes with recording"),
    "append with live": (["--live", "--append"], "--append goes with recording"),
    "overwrite and mode": (
        ["--capture", "c", "--overwrite", "--mode", "rewrite"],
        "not with --mode",
    ),
    "overwrite and append": (["--capture", "c", "--overwrite", "--append"], "exclude each other"),
    "strict and lenient": (["--replay", "c", "--strict", "--lenient"], "exclude each other"),
    "live and strict": (["--live", "--strict"], "--strict has no meaning"),
    "live and lenient": (["--live", "--lenient"], "--lenient has no meaning"),
    "live and policy": (["--live", "--policy", "p"], "--policy has no meaning"),
    "live and allow": (["--live", "--allow", "network"], "--allow has no meaning"),
    "live and report": (["--live", "--report", "r.json"], "--report has no meaning"),
    "live and isolate": (["--live", "--isolate"], "--isolate has no meaning"),
    "isolate while recording": (["--capture", "c", "--isolate"], "--isolate goes with a replay"),
    "an empty place to record": (["--capture", ""], "--capture names no place"),
    "an empty place to replay": (["--replay", ""], "--replay names no place"),
    "a capture as a tape": (["--replay-net-from", "."], "is a folder, and no net tape"),
    "unknown mode": (["--capture", "c", "--mode", "rerecord"], "invalid choice: 'rerecord'"),
    "unknown flag": (["--replai", "c"], "unrecognized arguments: --replai"),
    "unknown boundary": (
        ["--capture", "c", "--allow", "proces.exec"],
        "unknown boundary or driver 'proces.exec'",
    ),
    "unknown policy": (["--capture", "c", "--policy", "nowhere"], "nowhere"),
    "no folder for the report": (["--capture", "c", "--report", "no/r.json"], "no is not a folder"),
}


@pytest.mark.parametrize("what", MISUSE)
def test_what_makes_no_sense_is_refused(
    what: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flags, words = MISUSE[what]
    command = [] if what in ("no program", "nothing") else COMMAND
    ran = run("run", *flags, *command)
    assert ran.code == 2
    assert words in ran.err
    assert ran.hint
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_boundary_is_answered_with_the_nearest_one(run: Run, tmp_path: Path) -> None:
    ran = run("run", "--capture", tmp_path / "c", "--allow", "proces.exec", *COMMAND)
    assert "process.exec" in ran.hint


@pytest.mark.parametrize(
    "command, words",
    [
        (["no-such-program"], "program 'no-such-program' not found"),
        (["./no-such-program"], "program './no-such-program' not found"),
        (["python9.9", "p.py"], "program 'python9.9' not found"),
        ([sys.executable, "-I", "p.py"], "python -I ignores the environment"),
        ([sys.executable, "-E", "p.py"], "python -E ignores the environment"),
        ([sys.executable, "-S", "p.py"], "python -S does not load site"),
        ([sys.executable, "-uBIm", "p"], "python -I ignores the environment"),
    ],
    ids=["not found", "no such path", "no such python", "-I", "-E", "-S", "among others"],
)
@pytest.mark.parametrize("flag", ["--capture", "--replay"])
def test_a_program_that_cannot_be_recorded_is_not_started(
    command: list[str],
    words: str,
    flag: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("run", flag, "c", "--", *command)
    assert ran.code == 2
    assert words in ran.err
    assert ran.hint
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_not_python_is_refused_in_a_replay(stage: Theatre, recorded: Ran) -> None:
    ran = stage.run("--replay", "c", "--", "sh", "-c", "echo started")
    assert (ran.code, ran.out) == (2, b"")
    assert "sh is not a Python program: nothing would keep it from the network" in ran.err
    assert "--isolate" in ran.err


def test_a_program_that_is_not_python_is_recorded_with_a_warning(theatre: Theatre) -> None:
    ran = theatre.run("--capture", "c", "--", "sh", "-c", "echo started; exit 3")
    assert (ran.code, ran.out) == (3, b"started\n")
    assert "warning: no Python process took part in this run" in ran.err


def test_a_replay_in_which_nobody_took_part_is_an_error(recorded: Ran, stage: Theatre) -> None:
    """The environment that would have brought us in does not get through."""
    launcher = stage.write(
        "uv",
        f"""\
        #!/bin/sh
        exec env -i {sys.executable} "$@"
        """,
    )
    launcher.chmod(0o755)
    ran = stage.run("--replay", "c", "--lenient", "--", launcher, "-c", "1")
    assert ran.code == 2
    assert "no Python process took part in this replay" in ran.err
    assert "--isolate" in ran.err


def test_a_file_that_cannot_be_started(theatre: Theatre) -> None:
    odd = theatre.write("odd", "neither a script nor a program")
    odd.chmod(odd.stat().st_mode | stat.S_IXUSR)
    ran = theatre.run("--capture", "c", "--", "./odd")
    assert ran.code == 2
    assert "cannot start ./odd: Exec format error" in ran.err
    assert not (theatre.folder / "c").exists()


# Recordings that cannot be replayed


def _remove(place: Path) -> None:
    shutil.rmtree(place)


def _damage(place: Path) -> None:
    flip(place / "events.jsonl", b"target")


def _unfinish(place: Path) -> None:
    (place / "manifest.json").rename(place / "elsewhere")


def _from_the_future(place: Path) -> None:
    manifest = place / "manifest.json"
    text = manifest.read_text("utf-8").replace('"version": "1.0"', '"version": "2.0"')
    manifest.write_text(text, "utf-8")


@pytest.mark.parametrize(
    "spoil, words",
    [
        (_remove, "no recording"),
        (_damage, "line"),
        (_unfinish, "manifest"),
        (_from_the_future, "has format 2.0; this version reads 1.x"),
    ],
    ids=["missing", "damaged", "unfinished", "too new"],
)
def test_a_recording_that_cannot_be_read_is_exit_3_before_the_program_starts(
    spoil: Callable[[Path], None],
    words: str,
    copy: Theatre,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spoil(copy.folder / "c")
    monkeypatch.chdir(copy.folder)
    copy.write("program.py", "open('started', 'w')")
    ran = run("run", "--replay", "c", *COMMAND)
    assert ran.code == 3
    assert words in ran.err
    assert ran.hint
    assert not (copy.folder / "started").exists()


def test_damage_that_shows_late_is_exit_3_even_if_the_program_hides_it(theatre: Theatre) -> None:
    """What is big lies in a file of its own, which is read when it is needed."""
    theatre.write(
        "program.py",
        """
        import os
        from urllib.request import urlopen
        try:
            with urlopen(os.environ["SERVER"] + "/binary") as answer:
                print(len(answer.read()))
        except BaseException:
            print("hidden")
        """,
    )
    assert theatre.run("--capture", "c", *COMMAND).out == b"1048582\n"
    (blob,) = [place for place in theatre.folder.glob("c/blobs/*/*") if place.is_file()]
    flip(blob, bytes(range(256)))
    ran = theatre.run("--replay", "c", *COMMAND)
    assert (ran.code, ran.out) == (3, b"hidden\n")
    assert "does not match its name" in ran.err


def test_there_is_no_last_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("run", "--replay", "last", *COMMAND)
    assert ran.code == 3
    assert "no run found in" in ran.err
    assert ran.hint == "create one: reenact run -- CMD …"


# What it says


def test_the_summary_of_a_recording_and_of_a_replay(recorded: Ran, stage: Theatre) -> None:
    assert recorded.summary == "recorded 1 call in 1 lane to c"
    replayed = stage.run("--replay", "c", "--report", "r.json", *COMMAND)
    assert replayed.own == recorded.own == (0, recorded.out, "")
    assert replayed.summary == "replayed 1 call in 1 lane, 0 live, 0 unused"
    report = stage.report("r.json")
    assert report.pop("contentHash").startswith("sha256:")
    assert {*report.pop("environment")} == {"python", "platform", "reenact"}
    assert report == {
        "version": 1,
        "mode": "replay",
        "status": "ok",
        "counts": {"served": 1, "live": 0, "passed": {}, "divergences": 0, "unused": 0},
        "divergences": [],
        "recording": str(stage.folder / "c"),
        "lanes": 1,
        "exitCode": 0,
    }


def test_quiet(recorded: Ran, stage: Theatre) -> None:
    ran = stage.run("-q", "--replay", "c", *COMMAND)
    assert (ran.code, ran.out, ran.err) == (0, recorded.out, "")


def test_quiet_does_not_hide_a_divergence(recorded: Ran, stage: Theatre) -> None:
    ran = stage.run("-q", "--replay", "c", *COMMAND, "two")
    assert ran.code == 1
    assert "divergence: event_payload_mismatch" in ran.err
    assert "reenact: replayed" not in ran.err
    assert "reenact explain last" in ran.err


def test_a_quiet_recording_with_a_report(theatre: Theatre) -> None:
    ran = theatre.run("-q", "--capture", "c", "--report", "r.json", *COMMAND, CODE="4")
    assert (ran.code, ran.err) == (4, "")
    report = theatre.report("r.json")
    assert (report["mode"], report["status"], report["exitCode"]) == ("record", "ok", 4)
    assert report["counts"]["live"] == 1


def test_live_leaves_no_trace(theatre: Theatre) -> None:
    before = sorted(theatre.folder.rglob("*"))
    connections = theatre.server.connections
    theatre.write(
        "program.py",
        """
        import os, sys
        from ask import ask
        print(ask("/json"), "reenact" in sys.modules, os.environ.get("REENACT_RUN"))
        sys.exit(9)
        """,
    )
    ran = theatre.run("--live", *COMMAND, PYTHONDONTWRITEBYTECODE="1")
    assert ran.code == 9
    assert ran.out.endswith(b"} False None\n")
    assert ran.err == ""
    assert theatre.server.connections == connections + 1
    assert sorted(theatre.folder.rglob("*")) == before


def test_live_runs_any_program(theatre: Theatre) -> None:
    assert theatre.run("--live", "--", "sh", "-c", "echo hello; exit 3").own == (3, b"hello\n", "")
    assert theatre.run("--live", "--", sys.executable, "-I", "-c", "print(1)").out == b"1\n"
