"""A new recording made of events of an old one and new ones, in the order of their use."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reenact.errors import SinkError, SinkUnwritable, UsageError
from reenact.format.event import Draft
from reenact.format.manifest import RedactionInfo
from reenact.policy.redaction.redactor import PLACEHOLDER, Profile, Redactor
from reenact.store.reader import open_recording
from reenact.store.seal import Seal
from reenact.store.sinks.base import Options
from reenact.store.sinks.copy import Copier, CopyOnWriteSink
from reenact.store.sinks.memory import MemorySink, MemorySource, memory_source
from reenact.store.source import LogSource, SeekableSource
from reenact.store.verify import verify
from tests.unit.store.samples import (
    NOW,
    PLAIN,
    contents,
    datas,
    draft,
    is_tape,
    make_seed,
    make_sink,
    notes,
    raw_lines,
    record,
    start_sink,
)

CONTAINERS = pytest.mark.parametrize("name", ["capture", "tape.jsonl"])
SECRET = "hunter" + "2" * 20
OWN, OTHER = Seal(bytes(32)), Seal(bytes([1] * 32))


def sealing(profile: Profile = "default", seal: Seal | None = OWN) -> Options:
    redactor = Redactor(profile, declared=[SECRET])
    return Options(redactor=redactor, seal=seal, durability="none", warn=lambda _: None)


def rich() -> list[Draft]:
    """Something of everything that an event can be stored as."""
    turn = {"provider": "p", "model": "m", "inputHash": "h", "history": ["word " * 150]}
    longer = {**turn, "history": [*turn["history"], "and one more"]}
    answer = {"callId": "c", "ok": True, "result": {"text": f"<{SECRET}>", "n": [1.0, 2**70]}}
    return [
        draft("tool_call", {"name": "t", "callId": "c", "args": [SECRET]}, ts=NOW + 1),
        draft("llm_request", turn, ts=NOW + 2, op="chat"),
        draft("llm_request", longer, ts=NOW + 3, op="chat"),
        draft("tool_result", answer, ts=NOW + 4, parent=1, extra={"mood": {"data": 1}}),
        draft("x_big", {"raw": bytes(range(256)) * 20, "text": "é" * 3_000}, ts=NOW + 5),
        draft("x_withheld", {SECRET: "is a key"}, ts=NOW + 6, lane="0.1"),
        draft("x_odd", {"$bytes": "not bytes", "$blob": 1, "timing": {"ms": 1}}, ts=NOW + 7),
    ]


def whole(path: Path) -> list[tuple[Any, ...]]:
    """Everything that matters about each event, except its seq."""
    with open_recording(path) as source:
        return [(one.type, one.ts, one.lane, one.payload, source.extra(one.seq)) for one in source]


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file with its identity, its time and its content."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_ino,
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in [folder, *folder.rglob("*")]
    }


# Copier


@contextmanager
def copying(
    old: Path, new: Path, options: Options = PLAIN, *, key: Seal | None = None
) -> Iterator[Copier]:
    """A copier from one place to another; closes the new recording when the body is done."""
    sink = start_sink(new, options)
    with open_recording(old) as source:
        yield Copier(source, sink, key)
    sink.finalize()


@CONTAINERS
def test_events_come_in_the_order_in_which_they_were_copied(tmp_path: Path, name: str) -> None:
    old = record(tmp_path / f"old-{name}", notes(4))
    new = tmp_path / f"new-{name}"
    with copying(old, new) as copier:
        assert [copier.copy(3), copier.append(draft(data={"new": 1})), copier.copy(1)] == [1, 2, 3]
        assert [copier.copied(seq) for seq in range(6)] == [None, 3, None, 1, None, None]
        assert copier.rest() == 2
        assert copier.rest() == 0
    verify(new)
    assert datas(new) == [{"n": 3}, {"new": 1}, {"n": 1}, {"n": 2}, {"n": 4}]


@CONTAINERS
def test_the_content_hash_is_that_of_a_recording_made_in_the_new_order(
    tmp_path: Path, name: str
) -> None:
    drafts = [draft(data={"n": n}, lane=f"0.{n % 2}", ts=NOW + n) for n in range(8)]
    order = [5, 2, 1, 8, 3, 4, 7, 6]
    old = record(tmp_path / f"old-{name}", drafts)
    with copying(old, tmp_path / f"new-{name}") as copier:
        for seq in order:
            copier.copy(seq)
    told = record(tmp_path / f"told-{name}", [drafts[seq - 1] for seq in order])
    found = verify(tmp_path / f"new-{name}").manifest.integrity
    assert found.content_hash == verify(told).manifest.integrity.content_hash
    assert found.events_hash == verify(told).manifest.integrity.events_hash
    assert found.content_hash != verify(old).manifest.integrity.content_hash


@CONTAINERS
@pytest.mark.parametrize("profile", ["none", "default", "strict"])
def test_whatever_an_event_is_stored_as_survives(
    tmp_path: Path, name: str, profile: Profile
) -> None:
    options = replace(sealing(profile), blob_threshold=2_000)
    old = record(tmp_path / f"old-{name}", rich(), options)
    new = tmp_path / f"new-{name}"
    with copying(old, new, options, key=OWN) as copier:
        assert copier.rest() == len(rich())
        assert copier.unsealed == 0
    verify(new)
    assert whole(new) == whole(old)
    assert [parent for _, _, _, parent, _ in contents(new)][3] == 1
    if name == "capture":
        assert any(b'"$delta"' in line for line in raw_lines(new))
        assert verify(new).manifest.flags == verify(old).manifest.flags


def test_sealed_values_are_sealed_again_for_their_new_place(tmp_path: Path) -> None:
    old = record(tmp_path / "old", rich(), sealing())
    with copying(old, tmp_path / "new", sealing(seal=OTHER), key=OWN) as copier:
        copier.copy(4)
        copier.rest()
    with open_recording(tmp_path / "new") as source:
        event = source.at(1)
        assert event.data["result"]["text"] == f"<{PLACEHOLDER}>"
        assert event.data["redacted"] == ["$.result.text"]
        restored = source.restored(event, OTHER)
        assert restored.absent == ()
        assert restored.data["result"]["text"] == f"<{SECRET}>"
        assert source.manifest().sealed == {"keyId": OTHER.key_id}


@CONTAINERS
def test_a_sealed_value_that_the_new_session_would_not_recognise_stays_out(
    tmp_path: Path, name: str
) -> None:
    """The secret was one of the other run's environment: nothing about its form tells."""
    old = record(tmp_path / "old", rich(), sealing())
    new = tmp_path / name
    ignorant = replace(sealing(), redactor=Redactor("default"))
    with copying(old, new, ignorant, key=OWN) as copier:
        copier.rest()
    assert whole(new) == whole(old)
    files = [path for path in [new, *tmp_path.glob(f"{name}*/**/*")] if path.is_file()]
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    with open_recording(new) as source:
        absent = source.restored(source.at(4), OWN).absent
        assert absent == (("$.result.text",) if is_tape(new) else ())


def test_a_leaf_that_is_redacted_once_more_is_sealed_whole(tmp_path: Path) -> None:
    second = "correct-" + "horse-" * 3
    data = {"callId": "c", "ok": True, "result": f"{SECRET} and {second}"}
    old = record(tmp_path / "old", [draft("tool_result", data)], sealing())
    more = replace(sealing(), redactor=Redactor("default", declared=[second]))
    with copying(old, tmp_path / "new", more, key=OWN) as copier:
        copier.rest()
    with open_recording(tmp_path / "new") as source:
        assert source.at(1).data["result"] == f"{PLACEHOLDER} and {PLACEHOLDER}"
        assert source.restored(source.at(1), OWN).data["result"] == data["result"]


@pytest.mark.parametrize("key", [None, OTHER])
def test_without_the_key_the_placeholder_stays_and_the_loss_is_counted(
    tmp_path: Path, key: Seal | None
) -> None:
    old = record(tmp_path / "old", rich(), sealing())
    with copying(old, tmp_path / "new", sealing(), key=key) as copier:
        copier.rest()
        assert copier.unsealed == 1
    verify(tmp_path / "new")
    assert whole(tmp_path / "new") == whole(old)
    with open_recording(tmp_path / "new") as source:
        assert source.restored(source.at(4), OWN).absent == ("$.result.text",)


def test_the_parent_is_the_new_seq_of_the_enclosing_event(tmp_path: Path) -> None:
    drafts = [draft(), draft(parent=1), draft(parent=2), draft(parent=1)]
    old = record(tmp_path / "old", drafts)
    with copying(old, tmp_path / "new") as copier:
        for seq in (3, 1, 4, 2):
            copier.copy(seq)
    verify(tmp_path / "new")
    assert [parent for _, _, _, parent, _ in contents(tmp_path / "new")] == [None, None, 2, 2]


def test_the_second_copy_of_an_event_is_refused(tmp_path: Path) -> None:
    with copying(record(tmp_path / "old", notes(2)), tmp_path / "new") as copier:
        copier.copy(2)
        with pytest.raises(UsageError, match="event 2 has been copied already"):
            copier.copy(2)
        for seq in (0, 3, -1):
            with pytest.raises(LookupError):
                copier.copy(seq)
    assert datas(tmp_path / "new") == [{"n": 2}]


def test_copying_the_rest_ends_where_the_sink_does() -> None:
    said: list[str] = []
    sink = MemorySink(options=replace(PLAIN, warn=said.append), fail_after=3)
    sink.start(make_seed())
    copier = Copier(memory_source(*notes(9)), sink)
    assert copier.copy(7) == 1
    assert copier.rest() == 2
    assert copier.copy(5) == 0
    assert len(said) == 1
    assert [event.data["n"] for event in sink.events] == [7, 1, 2]


# CopyOnWriteSink


@contextmanager
def missing(
    path: Path, options: Options = PLAIN, *, key: Seal | None = None, warn: Any = None
) -> Iterator[CopyOnWriteSink]:
    """Add what is missing to the recording at ``path``; the body says how it ends."""
    with open_recording(path) as old:
        late = CopyOnWriteSink(
            make_sink(path, options, replace=True), old, seal=key, warn=warn or options.warn
        )
        late.start(make_seed("tape" if is_tape(path) else "events.jsonl", run_id="run_2"))
        yield late


@CONTAINERS
def test_a_run_in_which_nothing_is_missing_touches_no_file(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(3))
    before, manifest = tree(tmp_path), verify(path).manifest
    with missing(path) as late:
        assert [late.copy(2), late.copy(1)] == [1, 2]
        assert late.finalize("error", "of the program") == manifest
        assert late.finalize() == manifest
        for use in (lambda: late.copy(3), lambda: late.append(draft())):
            with pytest.raises(SinkError, match="closed"):
                use()
    assert tree(tmp_path) == before


@CONTAINERS
def test_what_is_new_comes_behind_what_was_used_before_it(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(5))
    with missing(path) as late:
        given = [late.copy(2), late.copy(1), late.append(draft(data={"new": 1})), late.copy(5)]
        given.append(late.append(draft(data={"new": 2}, parent=given[1])))
        manifest = late.finalize()
    assert given == [1, 2, 3, 4, 5]
    assert verify(path).manifest == manifest
    assert manifest.run_id == "run_2"
    told = [{"n": 2}, {"n": 1}, {"new": 1}, {"n": 5}, {"new": 2}, {"n": 3}, {"n": 4}]
    assert datas(path) == told
    assert contents(path)[4][3] == 2
    assert {entry.name for entry in tmp_path.iterdir()} == {name}


@CONTAINERS
def test_nothing_of_the_old_recording_is_lost(tmp_path: Path, name: str) -> None:
    options = replace(sealing(), blob_threshold=2_000)
    path = record(
        tmp_path / name, rich(), options, redaction=RedactionInfo(enabled=True, profile="default")
    )
    before = whole(path)
    with missing(path, options, key=OWN) as late:
        late.append(draft("x_new"))
        late.finalize()
    assert verify(path).manifest.redaction.profile == "default"
    assert whole(path)[1:] == before
    with open_recording(path) as source:
        absent = source.restored(source.at(5), OWN).absent
        assert absent == (() if name == "capture" else ("$.result.text",))


def test_adding_again_and_again_keeps_every_event_once(tmp_path: Path) -> None:
    chance = random.Random(8)
    path = record(tmp_path / "c", notes(3))
    told = {1, 2, 3}
    for number in range(10, 22):
        with missing(path) as late:
            used = chance.sample(range(1, len(told) + 1), chance.randint(0, len(told)))
            place = chance.randint(0, len(used))
            for seq in used[:place]:
                late.copy(seq)
            late.append(draft(data={"n": number}))
            for seq in used[place:]:
                late.copy(seq)
            late.finalize()
        told.add(number)
        verify(path)
        assert sorted(data["n"] for data in datas(path)) == sorted(told)


@CONTAINERS
def test_without_an_old_recording_it_starts_at_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    late = CopyOnWriteSink(make_sink(path))
    with pytest.raises(UsageError, match="start the sink"):
        late.append(draft())
    late.start(make_seed("tape" if is_tape(path) else "events.jsonl"))
    assert any(tmp_path.iterdir())
    with pytest.raises(UsageError, match="started already"):
        late.start(make_seed())
    with pytest.raises(LookupError):
        late.copy(1)
    assert late.append(draft()) == 1
    assert late.finalize() == verify(path).manifest


def test_a_place_that_is_taken_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(1))
    with pytest.raises(SinkError, match="already holds a recording"):
        CopyOnWriteSink(make_sink(path)).start(make_seed())


@CONTAINERS
@pytest.mark.parametrize("new", [0, 1])
def test_giving_up_leaves_the_old_recording_as_it_was(tmp_path: Path, name: str, new: int) -> None:
    path = record(tmp_path / name, notes(3))
    before = {place: found[2] for place, found in tree(tmp_path).items()}
    with missing(path) as late:
        late.copy(2)
        for one in notes(new):
            late.append(one)
        late.discard()
        late.discard()
        with pytest.raises(SinkError, match="closed"):
            late.finalize()
        with pytest.raises(SinkError, match="closed"):
            late.append(draft())
    assert {place: found[2] for place, found in tree(tmp_path).items()} == before
    verify(path)


@pytest.mark.parametrize("new", [0, 1])
@pytest.mark.parametrize("end", ["finalize", "discard"])
def test_the_source_belongs_to_whoever_opened_it(tmp_path: Path, new: int, end: str) -> None:
    """It may be read in another thread meanwhile, and afterwards."""
    path = record(tmp_path / "c", notes(3))
    with open_recording(path) as old:
        late = CopyOnWriteSink(make_sink(path, replace=True), old)
        late.start(make_seed())
        for one in notes(new):
            late.append(one)
        getattr(late, end)()
        assert [event.data["n"] for event in iter(old.next, None)] == [1, 2, 3]


def test_an_event_is_used_once(tmp_path: Path) -> None:
    with missing(record(tmp_path / "c", notes(3))) as late:
        late.copy(2)
        for _ in range(2):
            with pytest.raises(UsageError, match="event 2 has been copied already"):
                late.copy(2)
            for seq in (0, 4, -1):
                with pytest.raises(LookupError, match=f"event {seq} of 3"):
                    late.copy(seq)
            late.append(draft(data={"new": 1}))
        late.finalize()
    assert [data.get("n") for data in datas(tmp_path / "c")] == [2, None, None, 1, 3]


def test_the_profile_is_that_of_the_old_recording() -> None:
    drafts = notes(1)
    old = MemorySink(options=PLAIN)
    old.start(make_seed(redaction=RedactionInfo(enabled=True, profile="strict")))
    old.append(drafts[0])
    old.finalize()
    new = MemorySink(options=PLAIN)
    late = CopyOnWriteSink(new, old.source())
    late.start(make_seed())
    late.append(draft())
    assert late.finalize().redaction.profile == "strict"


def test_the_loss_of_sealed_values_is_said(tmp_path: Path) -> None:
    path = record(tmp_path / "c", rich(), sealing())
    said: list[str] = []
    with missing(path, sealing(), warn=said.append) as late:
        late.append(draft())
        late.finalize()
    assert len(said) == 1
    assert said[0].startswith("1 sealed value(s) of the old recording are lost")


# When it goes wrong


@CONTAINERS
def test_a_place_that_another_process_writes_is_a_warning_and_then_an_error(
    tmp_path: Path, name: str
) -> None:
    path = record(tmp_path / name, notes(3))
    said: list[str] = []
    other = start_sink(path, replace=True)
    with missing(path, warn=said.append) as late:
        late.copy(1)
        assert [late.append(draft()), late.append(draft()), late.copy(2)] == [0, 0, 0]
        with pytest.raises(SinkUnwritable, match="what was missing was not recorded") as caught:
            late.finalize()
    assert caught.value.hint == "the old recording is unchanged"
    assert len(said) == 1
    assert "is being written" in said[0]
    verify(path)
    assert datas(path) == [one.data for one in notes(3)]
    other.append(draft(data={"other": 1}))
    other.finalize()
    assert datas(path) == [{"other": 1}]


@CONTAINERS
@pytest.mark.parametrize("when", ["at first", "later", "at the end"])
def test_an_old_recording_that_cannot_be_read_any_more_is_not_replaced(
    tmp_path: Path, name: str, when: str
) -> None:
    options = replace(PLAIN, blob_threshold=500)
    path = record(tmp_path / name, [draft(data={"big": "x" * 600}), *notes(2)], options)
    said: list[str] = []
    with missing(path, options, warn=said.append) as late:
        shutil.rmtree(path / "blobs" if path.is_dir() else tmp_path / f"{name}.blobs")
        before = {place: found[2] for place, found in tree(tmp_path).items()}
        if when == "at first":
            late.copy(1)
        given = [late.append(draft())]
        if when == "later":
            given = [late.copy(1), late.append(draft())]
        assert given == {"at first": [0], "later": [0, 0], "at the end": [1]}[when]
        with pytest.raises(SinkUnwritable, match="what was missing was not recorded: blob"):
            late.finalize()
    assert len(said) == 1
    assert {place: found[2] for place, found in tree(tmp_path).items()} == before


def test_a_sink_that_fails_ends_the_new_recording_and_not_the_program() -> None:
    said: list[str] = []
    sink = MemorySink(options=replace(PLAIN, warn=said.append), fail_after=2)
    late = CopyOnWriteSink(sink, memory_source(*notes(3)), warn=said.append)
    late.start(make_seed())
    late.copy(3)
    assert [late.append(draft()), late.append(draft()), late.copy(1)] == [2, 0, 0]
    assert late.finalize().status == "error"
    assert len(said) == 1


class _Interrupted(MemorySource):
    """An old recording during whose copying the user presses Ctrl-C."""

    def reopen(self) -> _Interrupted:
        return _Interrupted(self.manifest(), self)

    def at(self, seq: int) -> Any:
        if seq == 2:
            raise KeyboardInterrupt
        return super().at(seq)


@CONTAINERS
@pytest.mark.parametrize("end", ["finalize", "discard"])
def test_an_interruption_while_catching_up_leaves_the_old_recording(
    tmp_path: Path, name: str, end: str
) -> None:
    path = record(tmp_path / name, notes(3))
    before = {place: found[2] for place, found in tree(tmp_path).items()}
    with open_recording(path) as old:
        interrupted = _Interrupted(old.manifest(), list(old))
        late = CopyOnWriteSink(make_sink(path, replace=True), interrupted)
        late.start(make_seed("tape" if is_tape(path) else "events.jsonl"))
        late.copy(1)
        late.copy(2)
        with pytest.raises(KeyboardInterrupt):
            late.append(draft())
        assert end == "discard" or late.finalize() == old.manifest()
        late.discard()
    assert {place: found[2] for place, found in tree(tmp_path).items()} == before


# Threads and forks


@CONTAINERS
def test_threads_use_and_add_side_by_side(tmp_path: Path, name: str) -> None:
    drafts = [draft(data={"lane": n % 4, "n": n}, lane=f"0.{n % 4}") for n in range(200)]
    path = record(tmp_path / name, drafts)
    together = threading.Barrier(4)
    with missing(path) as late:

        def work(lane: int) -> None:
            together.wait()
            for n in range(lane, 160, 4):
                assert late.copy(n + 1) > 0
                if n % 5 == 0:
                    assert late.append(draft(data={"after": n}, lane=f"0.{lane}")) > 0

        threads = [threading.Thread(target=work, args=(lane,)) for lane in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        late.finalize()
    verify(path)
    for lane in range(4):
        told: list[dict[str, int]] = []
        for n in range(lane, 200, 4):
            told.append({"lane": lane, "n": n})
            if n % 5 == 0 and n < 160:
                told.append({"after": n})
        assert [data for *_, of, _, data in contents(path) if of == f"0.{lane}"] == told


def _status_of_child(work: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        signal.alarm(60)  # a child that is stuck fails the test instead of stopping it
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@CONTAINERS
def test_a_child_forked_before_anything_was_new_starts_nothing(tmp_path: Path, name: str) -> None:
    path = record(tmp_path / name, notes(3))
    said: list[str] = []
    with missing(path, warn=said.append) as late:
        late.copy(1)

        def child() -> bool:
            given = [late.copy(2), late.append(draft()), late.append(draft())]
            late.discard()
            return given == [0, 0, 0] and len(said) == 1 and "forked" in said[0]

        assert _status_of_child(child) == 0
        assert late.copy(2) == 2
        late.append(draft(data={"new": 1}))
        late.finalize()
    verify(path)
    assert datas(path) == [{"n": 1}, {"n": 2}, {"new": 1}, {"n": 3}]


def test_a_child_forked_in_the_middle_of_an_append_is_not_stuck(tmp_path: Path) -> None:
    """A warning is given with the lock held."""
    path = record(tmp_path / "c", notes(1))
    busy = start_sink(path, replace=True)
    found: list[int] = []

    def fork_once(_: str) -> None:
        if not found:
            found.append(-1)
            found[0] = _status_of_child(lambda: late.append(draft()) == 0)

    with missing(path, warn=fork_once) as late:
        assert late.append(draft()) == 0
        late.discard()
    assert found == [0]
    busy.discard()


def test_a_child_forked_later_adds_its_own_events_and_copies_none(tmp_path: Path) -> None:
    path = record(tmp_path / "c", notes(3))
    with missing(path) as late:
        late.append(draft(data={"new": 1}))

        def child() -> bool:
            given = [late.copy(2), late.append(draft(data={"child": 1}, lane="0.1"))]
            late.leave()
            try:
                late.finalize()
            except SinkError:
                return given == [0, 1]
            return False

        assert _status_of_child(child) == 0
        late.copy(3)
        late.finalize()
    verify(path)
    found = datas(path)
    assert [data for data in found if "child" not in data] == [
        {"new": 1},
        {"n": 3},
        {"n": 1},
        {"n": 2},
    ]
    assert found.count({"child": 1}) == 1


def test_sources_of_both_kinds_can_be_copied(tmp_path: Path) -> None:
    disk = open_recording(record(tmp_path / "c", notes(2)))
    for source in (disk, memory_source(*notes(2))):
        seekable: SeekableSource = source
        sink = MemorySink(options=PLAIN)
        sink.start(make_seed())
        assert Copier(seekable, sink).rest() == 2
        assert [event.data for event in sink.events] == [{"n": 1}, {"n": 2}]
    assert isinstance(disk, LogSource)
    disk.close()
