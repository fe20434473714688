from __future__ import annotations

import resource
from pathlib import Path

import pytest

from reenact.exchange.client.command_journal import Journal, ReplayEnd
from reenact.exchange.client.limits import CLOCKS_DIFFER

DAY = 24 * 60 * 60 * 1_000
FAILED = ReplayEnd("failed", "agent_restarted", "why")


def reopened(path: Path, now: int = 0) -> Journal:
    journal = Journal(path)
    journal.open(now)
    return journal


def test_what_was_written_is_known_after_a_restart(tmp_path: Path) -> None:
    journal = reopened(tmp_path / "j")
    journal.accept("rp-1", "cmd-1", "n-1", 1_000, 0)
    journal.accept("rp-2", "cmd-2", "n-2", 1_000, 0)
    journal.end("rp-2", FAILED, 0)
    journal.accept("rp-3", "cmd-3", "n-3", 1_000, 0, ReplayEnd("cancelled"))
    journal.say("rp-3", 0)
    journal.use("n-4", "cmd-4", 1_000, 0)
    journal.close()
    journal = reopened(tmp_path / "j")
    assert journal.unended() == ("rp-1",)
    assert journal.unsaid() == (("rp-2", FAILED),)
    assert [journal.used_by(f"n-{n}") for n in range(1, 6)] == [
        "cmd-1",
        "cmd-2",
        "cmd-3",
        "cmd-4",
        None,
    ]
    known = journal.find("rp-3")
    assert known is not None
    assert (known.done, known.said) == (ReplayEnd("cancelled"), True)
    journal.close()


def test_the_first_end_counts(tmp_path: Path) -> None:
    journal = reopened(tmp_path / "j")
    journal.accept("rp-1", "cmd-1", "n-1", 1_000, 0)
    journal.end("rp-1", ReplayEnd("completed"), 0)
    journal.end("rp-1", FAILED, 0)
    journal.end("rp-9", FAILED, 0)
    assert journal.unsaid() == ()  # its exchange says it
    assert journal.find("rp-9") is None
    journal.close()


def test_a_line_is_there_or_not_wherever_it_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = reopened(path)
    journal.accept("rp-1", "cmd-1", "n-1", 1_000, 0)
    size = path.stat().st_size
    journal.accept("rp-2", "cmd-2", "n-2", 1_000, 0)
    journal.close()
    whole = path.read_bytes()
    for cut in range(size, len(whole) + 1):
        path.write_bytes(whole[:cut])
        journal = reopened(path)
        expected = ("rp-1", "rp-2") if cut == len(whole) else ("rp-1",)
        assert journal.unended() == expected
        journal.accept("rp-3", "cmd-3", "n-3", 1_000, 0)  # what is added is not glued to the rest
        journal.close()
        journal = reopened(path)
        assert journal.unended() == (*expected, "rp-3")
        journal.close()


def test_a_damaged_line_takes_nothing_else_with_it(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = reopened(path)
    for number in range(3):
        journal.accept(f"rp-{number}", f"cmd-{number}", f"n-{number}", 1_000, 0)
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\x00" * 40 + b"\n" + lines[2])
    journal = reopened(path)
    assert journal.unended() == ("rp-0", "rp-2")
    journal.close()


def test_what_is_over_is_forgotten_and_what_is_not_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = reopened(path)
    journal.accept("old", "cmd-1", "n-1", 1_000, 0, ReplayEnd("completed"))
    journal.say("old", 0)
    journal.accept("unsaid", "cmd-2", "n-2", 1_000, 0, FAILED)
    journal.accept("unended", "cmd-3", "n-3", 1_000, 0)
    journal.close()
    journal = reopened(path, 1_000 + CLOCKS_DIFFER)
    assert journal.used_by("n-1") == "cmd-1"
    assert journal.find("old") is not None
    journal.close()
    journal = reopened(path, 1_001 + CLOCKS_DIFFER)
    assert journal.used_by("n-1") is None
    assert journal.find("old") is not None
    journal.close()
    journal = reopened(path, 1_001 + DAY)
    assert journal.find("old") is None
    assert (journal.unended(), len(journal.unsaid())) == (("unended",), 1)
    journal.close()


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", many=20)
    journal.open(0)
    for number in range(500):
        now = number * DAY
        name = f"rp-{number}"
        journal.accept(name, f"cmd-{number}", f"n-{number}", now, now)
        journal.end(name, ReplayEnd("cancelled"), now)
        journal.say(name, now)
    assert len((tmp_path / "j").read_bytes().splitlines()) < 60
    journal.close()


def test_what_cannot_be_written_has_not_happened(tmp_path: Path) -> None:
    journal = reopened(tmp_path / "j")
    journal.accept("rp-1", "cmd-1", "n-1", 1_000, 0)
    size = (tmp_path / "j").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))  # as a disk that is full
    try:
        with pytest.raises(OSError):
            journal.accept("rp-2", "cmd-2", "n-2", 1_000, 0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert journal.find("rp-2") is None
    assert journal.used_by("n-2") is None
    assert (tmp_path / "j").stat().st_size == size
    journal.accept("rp-3", "cmd-3", "n-3", 1_000, 0)
    journal.close()
    journal = reopened(tmp_path / "j")
    assert journal.unended() == ("rp-1", "rp-3")
    journal.close()
