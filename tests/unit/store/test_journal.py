"""The journal: what is written of a call that is under way, and what becomes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.format.canonical import decode
from reenact.format.event import Draft
from reenact.policy.redaction.redactor import Redactor
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.memory import memory_seed
from reenact.store.sinks.tape import TapeSink
from reenact.store.stream_journal import Journal, journal_path
from tests.clocks import start_clock

SECRET = "sk-" + "Zz9Planted0SecretXx7"
DECLARED = "the-blue-heron-at-noon"


class Desk:
    """A journal, its lines, and what was told of them."""

    def __init__(
        self,
        folder: Path,
        *,
        small: int = 1 << 16,
        large: int = 1 << 20,
        declared: tuple[str, ...] = (),
    ) -> None:
        self.path = folder / "log.streams"
        self.touched = 0
        self.seq = 5
        self.journal = Journal(
            self.path,
            Redactor("default", declared=declared),
            lambda: self.seq,
            self._touch,
            small=small,
            large=large,
        )

    def _touch(self, path: Path) -> None:
        assert path == self.path
        self.touched += 1

    def begin(self, **data: Any) -> Any:
        return self.journal.begin(_draft(**data), 3)

    def lines(self) -> list[Any]:
        return [decode(line) for line in self.path.read_bytes().splitlines()]


def _draft(**data: Any) -> Draft:
    return Draft(type="nondeterministic", data={"source": "network", **data}, ts=1_000, lane="0.2")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    desk.journal.remove()


def test_there_is_no_file_before_there_is_a_call(desk: Desk) -> None:
    assert not desk.path.exists()
    desk.begin()
    assert desk.path.exists()


def test_a_call_is_told_line_by_line(desk: Desk) -> None:
    note = desk.begin(op="GET")
    note.add({"response": {"body": b"\xff"}}, 1_020)
    note.end()
    place = {"type": "nondeterministic", "lane": "0.2", "ts": 1_000, "position": 3}
    assert desk.lines() == [
        {"id": 1, **place, "data": {"op": "GET", "source": "network"}},
        {"id": 1, "ts": 1_020, "data": {"response": {"body": {"$bytes": "/w=="}}}},
        {"id": 1, "seq": 5},
    ]
    assert desk.touched == 3


def test_every_line_is_redacted(desk: Desk) -> None:
    note = desk.begin(request={"headers": [["authorization", f"Bearer {SECRET}"]]})
    note.add({"response": {"headers": [["set-cookie", f"a={SECRET}"]]}}, 1)
    assert SECRET.encode() not in desk.path.read_bytes()
    assert desk.lines()[1]["data"]["redacted"] == ["$.response.headers[0][1]"]


def test_what_redaction_cannot_mend_is_not_written(tmp_path: Path) -> None:
    """A declared value in the name of a field is not replaced: the payload is withheld."""
    desk = Desk(tmp_path, declared=(DECLARED,))
    note = desk.begin()
    note.add({"response": {DECLARED: 1}}, 1)
    assert desk.lines()[1]["data"] == {}
    assert desk.begin(request={DECLARED: 1}) is None
    assert DECLARED.encode() not in desk.path.read_bytes()
    desk.journal.remove()


def test_nothing_is_added_to_a_call_that_has_ended(desk: Desk) -> None:
    note = desk.begin()
    note.end()
    note.end()
    note.add({"more": 1}, 1)
    assert len(desk.lines()) == 2


def test_it_is_empty_again_when_no_call_is_open(tmp_path: Path) -> None:
    desk = Desk(tmp_path, small=0)
    one, other = desk.begin(op="one"), desk.begin(op="other")
    one.end()
    third = desk.begin(op="third")
    assert len(desk.lines()) == 4
    for note in (other, third):
        note.end()
    desk.begin(op="fourth")
    assert [line["data"]["op"] for line in desk.lines()] == ["fourth"]
    desk.journal.remove()


def test_a_small_one_is_not_emptied_for_each_call(tmp_path: Path) -> None:
    desk = Desk(tmp_path, small=1_000)
    sizes = []
    for number in range(40):
        note = desk.begin(op=str(number))
        sizes.append(desk.path.stat().st_size)
        note.end()
    assert sizes.count(min(sizes)) < 10
    assert max(sizes) < 1_400
    desk.journal.remove()


def test_one_long_call_does_not_keep_the_others(tmp_path: Path) -> None:
    desk = Desk(tmp_path, large=2_000)
    long = desk.begin(op="long")
    for number in range(300):
        note = desk.begin(op="short")
        note.add({"response": {"body": "words " * 50}}, number)
        note.end()
        assert desk.path.stat().st_size < 6_000
    long.add({"response": {"body": "at last "}}, 900)
    mine = [line for line in desk.lines() if line["id"] == 1]
    assert [line["data"].get("op") for line in mine] == ["long", None]
    assert not desk.path.with_name("log.streams.tmp").exists()
    desk.journal.remove()
    assert list(tmp_path.iterdir()) == []


def test_other_users_cannot_read_a_journal_that_was_shortened(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        desk = Desk(tmp_path, large=2_000)
        desk.begin(op="long")
        for number in range(20):
            note = desk.begin(op="short")
            note.add({"response": {"body": "words " * 50}}, number)
            note.end()
    finally:
        os.umask(before)
    assert desk.path.stat().st_size < 6_000
    assert desk.path.stat().st_mode & 0o777 == 0o600


def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "missing")
    note = desk.begin()
    note.add({"a": 1}, 1)
    note.end()
    desk.journal.remove()
    assert not (tmp_path / "missing").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is full")
def test_a_disk_that_fills_up_leaves_no_call_that_seems_open(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    note = desk.begin()
    full = os.open("/dev/full", os.O_WRONLY)
    kept = os.dup(desk.journal._fd)
    os.dup2(full, desk.journal._fd)
    note.add({"a": 1}, 1)
    os.dup2(kept, desk.journal._fd)
    note.add({"b": 1}, 1)
    assert [line.get("data", {}).get("b") for line in desk.lines()] == [None]
    for fd in (full, kept):
        os.close(fd)
    desk.journal.remove()


# In the sinks


@pytest.mark.parametrize("kind", [DirectorySink, TapeSink])
def test_a_sink_keeps_its_journal_until_it_is_finalised(kind: Any, tmp_path: Path) -> None:
    place = tmp_path / "run"
    sink = kind(place, clock=start_clock(), options=Options(redactor=Redactor("none")))
    sink.start(memory_seed())
    note = sink.begin(_draft(), 0)
    log = place / "events.jsonl" if kind is DirectorySink else tmp_path / "run.part"
    assert journal_path(log).exists()
    note.end()
    sink.append(_draft())
    sink.finalize()
    assert not journal_path(log).exists()


@pytest.mark.parametrize("kind", [DirectorySink, TapeSink])
def test_a_sink_that_is_given_up_leaves_none(kind: Any, tmp_path: Path) -> None:
    sink = kind(tmp_path / "run", clock=start_clock())
    sink.start(memory_seed("default"))
    sink.begin(_draft(), 0)
    sink.discard()
    assert list(tmp_path.iterdir()) == []


def test_an_unfinished_tape_that_is_overwritten_takes_its_journal_with_it(tmp_path: Path) -> None:
    place = tmp_path / "run.jsonl"
    (tmp_path / "run.jsonl.part").write_bytes(b"{}\n")
    journal_path(tmp_path / "run.jsonl.part").write_bytes(b'{"id":1}\n')
    sink = TapeSink(place, clock=start_clock(), replace=True)
    sink.start(memory_seed("default"))
    sink.append(_draft(key="k", valueHash="v"))
    sink.finalize()
    assert [file.name for file in tmp_path.iterdir()] == ["run.jsonl"]


@pytest.mark.parametrize("durability", ["none", "interval", "event"])
def test_the_journal_is_written_whatever_the_durability(durability: Any, tmp_path: Path) -> None:
    options = Options(redactor=Redactor("none"), durability=durability)
    sink = DirectorySink(tmp_path / "run", clock=start_clock(), options=options)
    sink.start(memory_seed())
    note = sink.begin(_draft(), 0)
    assert note is not None
    note.add({"response": 1}, 5)
    assert journal_path(tmp_path / "run" / "events.jsonl").read_bytes().count(b"\n") == 2
    sink.discard()
