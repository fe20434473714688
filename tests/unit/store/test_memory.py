"""Recordings in memory keep the contracts of those on disk: most tests compare the two."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from reenact.errors import SinkError, UsageError, ValueRefused
from reenact.format.event import Draft
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from reenact.store.reader import open_recording
from reenact.store.seal import Seal
from reenact.store.sinks.base import CopySink, Options, Sink
from reenact.store.sinks.memory import MemorySink, MemorySource, memory_seed, memory_source
from reenact.store.source import SeekableSource, Source
from tests.unit.store.samples import NOW, PLAIN, draft, make_seed, notes, record

SECRET = "hunter" + "2" * 20
OWN, OTHER = Seal(bytes(32)), Seal(bytes([1] * 32))
SEALING = Options(redactor=Redactor("default", declared=[SECRET]), seal=OWN, durability="none")


def fill(drafts: list[Draft], options: Options = PLAIN, **other: Any) -> MemorySink:
    sink = MemorySink(options=options, **other)
    sink.start(make_seed())
    for one in drafts:
        sink.append(one)
    return sink


def some_drafts() -> list[Draft]:
    return [
        draft("tool_call", {"name": "t", "callId": "c", "args": [SECRET, b"\xff", 1.0]}, ts=5),
        draft("tool_result", {"callId": "c", "ok": True, "result": {"token": SECRET}}, ts=6),
        draft("x_dream", {"$bytes": "not bytes"}, ts=9, lane="0.1", parent=1, extra={"mood": 1}),
        draft("x_big", {"text": "word " * 400, "timing": {"ms": 3}}, ts=8),
    ]


def test_both_ends_fit_the_protocols() -> None:
    sink: CopySink = fill([])
    simple: Sink = sink
    simple.finalize()
    source: SeekableSource = memory_source()
    plain: Source = source
    assert plain.remaining() == 0


@pytest.mark.parametrize("options", [PLAIN, SEALING], ids=["plain", "sealing"])
def test_the_manifest_is_that_of_a_capture_directory(tmp_path: Path, options: Options) -> None:
    options = replace(options, deltas=False)
    memory = fill(some_drafts(), options).finalize()
    with open_recording(record(tmp_path / "c", some_drafts(), options)) as source:
        disk = source.manifest()
    assert memory.completed_at == 9
    assert memory.integrity.events_hash == disk.integrity.events_hash
    assert memory.integrity.content_hash == disk.integrity.content_hash
    assert memory.integrity.checkpoints == disk.integrity.checkpoints
    facts = [(one.event_count, one.lanes, one.flags, one.sealed) for one in (memory, disk)]
    assert facts[0] == facts[1]


def test_events_are_those_that_a_directory_gives_back(tmp_path: Path) -> None:
    sink = fill(some_drafts(), SEALING)
    sink.finalize()
    with open_recording(record(tmp_path / "c", some_drafts(), SEALING)) as disk:
        for mine, theirs in zip(sink.source(), disk, strict=True):
            assert mine.to_json() == theirs.to_json()
            assert mine.data == theirs.data
            assert sink.source().extra(mine.seq) == disk.extra(mine.seq)


def test_nothing_secret_is_kept_and_the_key_gives_it_back() -> None:
    sink = fill(some_drafts(), SEALING)
    sink.finalize()
    source = sink.source()
    held = repr([vars(sink), [event.payload for event in sink.events], vars(source)])
    assert SECRET not in held
    answer = source.at(2)
    assert answer.data["result"] == {"token": PLACEHOLDER}
    assert source.restored(answer, OWN).data["result"] == {"token": SECRET}
    assert source.reopen().restored(answer, OWN).data["result"] == {"token": SECRET}
    for seal in (None, OTHER):
        assert source.restored(answer, seal).absent == ("$.result.token",)


def test_events_can_be_looked_at_before_the_end() -> None:
    sink = fill(notes(2))
    assert [event.data for event in sink.events] == [{"n": 1}, {"n": 2}]
    with pytest.raises(UsageError, match="finalise"):
        sink.source()


def test_the_order_of_calls_is_that_of_any_sink() -> None:
    sink = MemorySink(options=PLAIN)
    for early in (lambda: sink.append(draft()), sink.finalize):
        with pytest.raises(UsageError, match="start the sink"):
            early()
    sink.start(make_seed())
    with pytest.raises(UsageError, match="started already"):
        sink.start(make_seed())
    assert [sink.append(one) for one in notes(3)] == [1, 2, 3]
    manifest = sink.finalize("error", "why")
    assert (manifest.status, manifest.error) == ("error", "why")
    assert sink.finalize() is manifest
    with pytest.raises(SinkError, match="closed"):
        sink.append(draft())
    sink.discard()
    assert len(sink.events) == 3


def test_an_error_text_is_redacted() -> None:
    manifest = fill([], SEALING).finalize("error", f"wrong password {SECRET}")
    assert manifest.error == f"wrong password {PLACEHOLDER}"


@pytest.mark.parametrize(
    "bad",
    [
        draft(data={"a": float("nan")}),
        draft(lane="one"),
        draft(parent=3),
        draft(extra={"seq": 1}),
    ],
)
def test_what_no_recording_can_hold_is_refused_and_leaves_nothing(bad: Draft) -> None:
    sink = fill(notes(1))
    with pytest.raises(ValueRefused):
        sink.append(bad)
    assert sink.append(draft()) == 2
    assert sink.finalize().event_count == 2


def test_a_payload_with_a_survivor_is_withheld_with_a_warning() -> None:
    said: list[str] = []
    sink = fill([], replace(SEALING, warn=said.append))
    sink.append(draft(data={SECRET: "a key is never changed"}))
    assert "withheld" in sink.events[0].data
    assert len(said) == 1
    assert SECRET not in said[0]


@pytest.mark.parametrize("many", [0, 2])
def test_a_sink_that_is_told_to_fail_does_not_stop_the_program(many: int) -> None:
    said: list[str] = []
    sink = fill([], replace(PLAIN, warn=said.append), fail_after=many)
    given = [sink.append(one) for one in notes(4)]
    assert given == [*range(1, many + 1), *[0] * (4 - many)]
    assert len(said) == 1
    assert f"recording stopped after event {many}" in said[0]
    manifest = sink.finalize()
    assert (manifest.status, manifest.event_count) == ("error", many)
    assert f"recording stopped after event {many}" in str(manifest.error)


def test_a_discarded_recording_is_empty_and_closed() -> None:
    sink = fill(notes(2))
    sink.discard()
    sink.discard()
    assert sink.events == ()
    with pytest.raises(SinkError, match="closed"):
        sink.append(draft())
    with pytest.raises(SinkError, match="given up"):
        sink.finalize()


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


def test_a_forked_child_records_nothing_and_says_so() -> None:
    said: list[str] = []
    sink = fill(notes(1), replace(PLAIN, warn=said.append))

    def child() -> bool:
        given = [sink.append(draft()), sink.append(draft())]
        sink.leave()
        sink.discard()
        try:
            sink.finalize()
        except SinkError:
            return given == [0, 0] and len(said) == 1 and "forked child" in said[0]
        return False

    assert _status_of_child(child) == 0
    assert sink.append(draft()) == 2
    assert sink.finalize().event_count == 2


def test_a_child_forked_in_the_middle_of_an_append_is_not_stuck() -> None:
    """A warning is given with the lock held."""
    found: list[int] = []
    sink = fill(notes(1), replace(PLAIN, warn=lambda _: found.append(_status())), fail_after=1)

    def _status() -> int:
        return _status_of_child(lambda: sink.append(draft()) == 0)

    assert sink.append(draft()) == 0
    assert found == [0]


def test_threads_append_side_by_side_without_gaps() -> None:
    sink = fill([])

    def work(lane: int) -> None:
        for count in range(50):
            sink.append(draft(data={"count": count}, lane=f"0.{lane}"))

    threads = [threading.Thread(target=work, args=(lane,)) for lane in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sink.finalize().event_count == 200
    assert [event.seq for event in sink.events] == list(range(1, 201))


# The source


def sources(tmp_path: Path) -> list[SeekableSource]:
    """The same events in memory and on disk."""
    drafts = [draft("a"), draft("b", {"n": 1}), draft("a", lane="0.2")]
    return [memory_source(*drafts), open_recording(record(tmp_path / "c", drafts))]


def test_the_cursor_moves_as_that_of_a_directory(tmp_path: Path) -> None:
    scripts = []
    for source in sources(tmp_path):
        said: list[object] = []
        for wish in ("b", "a", None, "a", None):
            before = source.peek()
            event = source.next(wish)
            said.append((before and before.seq, event and event.seq, source.remaining()))
        said.append([(one.seq, one.type, one.lane, one.data) for one in source])
        second = source.reopen()
        said.append((len(source), second.remaining(), source.remaining()))
        scripts.append(said)
        for reader in (source, second):
            reader.close()
    assert scripts[0] == scripts[1]
    assert scripts[0][:2] == [(1, None, 3), (1, 1, 2)]


@pytest.mark.parametrize("seq", [0, -1, 4])
def test_an_event_that_does_not_exist_is_a_lookup_error(tmp_path: Path, seq: int) -> None:
    for source in sources(tmp_path):
        with pytest.raises(LookupError, match=f"event {seq} of 3"):
            source.at(seq)
        source.close()


def test_a_source_is_made_of_whatever_is_at_hand() -> None:
    with memory_source(
        ("a", {"n": 1}), ("b", {}, "0.1"), draft("c", {"secret": SECRET}, ts=NOW)
    ) as source:
        found = [(one.seq, one.type, one.lane, one.data) for one in source]
        assert found == [
            (1, "a", "0", {"n": 1}),
            (2, "b", "0.1", {}),
            (3, "c", "0", {"secret": SECRET}),
        ]
        assert source.at(1).ts < source.at(2).ts
        assert source.at(3).ts == NOW
        assert source.manifest().integrity == memory_source(*_again(source)).manifest().integrity


def _again(source: MemorySource) -> list[Draft]:
    return [Draft(type=one.type, data=one.data, ts=one.ts, lane=one.lane) for one in source]


def test_a_seed_says_how_it_is_redacted() -> None:
    assert memory_seed() == memory_seed()
    assert not memory_seed().redaction.enabled
    assert memory_seed("strict").redaction.profile == "strict"
