from __future__ import annotations

from pathlib import Path

import pytest

from reenact.errors import SinkError
from reenact.format.event import Draft
from reenact.format.manifest import Flag
from reenact.policy.redaction.redactor import Redactor
from reenact.store.integrity import encode_manifest
from reenact.store.pack import pack_contents, unpack
from reenact.store.payload_encoder import prepare
from reenact.store.reader import open_recording
from reenact.store.sinks.base import Options
from reenact.store.sinks.buffered import BufferedSink, PreparedCache
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.memory import memory_seed
from reenact.store.verify import verify
from tests.clocks import start_clock

SECRET = "sk-proj-" + "Zk3vT9qLw2Xy8Rb5" * 3


def sink_at(path: Path, largest: int = 10_000) -> BufferedSink:
    options = Options(redactor=Redactor("default"), durability="none")
    sink = BufferedSink(path, clock=start_clock(), options=options, largest=largest)
    sink.start(memory_seed("default"))
    return sink


def draft(number: int, **more: str) -> Draft:
    data = {"name": "t", "callId": f"c{number}", "args": {"n": number, **more}}
    return Draft(type="tool_call", data=data, ts=number)


def test_a_small_recording_touches_no_file_and_reads_as_a_capture(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "capture")
    assert [sink.append(draft(number, key=SECRET)) for number in (1, 2)] == [1, 2]
    sink.flag(Flag.DELTAS)
    manifest = sink.finalize()
    assert not list(tmp_path.iterdir())
    assert sink.contents is not None
    assert SECRET.encode() not in sink.contents.events
    (tmp_path / "packed").write_bytes(pack_contents(sink.contents.manifest, sink.contents.events))
    assert unpack(tmp_path / "packed", tmp_path / "copy").manifest == manifest
    with open_recording(tmp_path / "copy") as source:
        assert [event.data["args"]["n"] for event in source] == [1, 2]


def test_memory_states_the_same_content_hash_as_a_directory(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "capture")
    directory = DirectorySink(
        tmp_path / "other", clock=start_clock(), options=Options(redactor=Redactor("default"))
    )
    directory.start(memory_seed("default"))
    for number in (1, 2, 3):
        sink.append(draft(number))
        directory.append(draft(number))
    one, two = sink.finalize().integrity, directory.finalize().integrity
    assert (one.content_hash, one.events_hash) == (two.content_hash, two.events_hash)


def test_recording_in_memory_names_the_model_that_was_called(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "capture")
    data = {"provider": "openai", "model": "gpt-5", "messages": []}
    sink.append(Draft(type="llm_request", data=data, ts=1))
    manifest = sink.finalize()
    assert (manifest.model.provider, manifest.model.model) == ("openai", "gpt-5")
    assert manifest.event_count == 1


@pytest.mark.parametrize("error", [None, "ValueError"])
def test_manifest_in_memory_is_the_file_of_a_capture(tmp_path: Path, error: str | None) -> None:
    sink = sink_at(tmp_path / "capture")
    sink.append(draft(1))
    manifest = sink.finalize("ok" if error is None else "error", error)
    assert sink.contents is not None
    assert sink.contents.manifest == encode_manifest(manifest)


@pytest.mark.parametrize("how", ["grows", "is joined"])
def test_a_recording_becomes_a_directory_when_it_grows_or_is_joined(
    tmp_path: Path, how: str
) -> None:
    sink = sink_at(tmp_path / "capture", largest=100 if how == "grows" else 10_000)
    for number in range(1, 4):
        assert sink.append(draft(number, key=SECRET)) == number
    if how == "is joined":
        sink.move_to_disk()
        assert sink.append(draft(4)) == 4
    manifest = sink.finalize()
    assert sink.contents is None
    assert verify(tmp_path / "capture").manifest == manifest
    assert manifest.event_count == (3 if how == "grows" else 4)
    assert SECRET.encode() not in (tmp_path / "capture" / "events.jsonl").read_bytes()


def test_a_place_that_cannot_be_written_ends_the_recording_and_not_the_program(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    sink = sink_at(tmp_path / "file" / "capture", largest=200)
    for number in range(1, 4):
        sink.append(draft(number, text="x" * 200))
    with pytest.raises(SinkError):
        sink.finalize()


def test_a_closed_recording_takes_no_events(tmp_path: Path) -> None:
    sink = sink_at(tmp_path / "capture")
    assert sink.finalize() is sink.finalize()
    with pytest.raises(SinkError):
        sink.append(draft(1))


def env_read(value: object, kind: str = "state_mutation") -> Draft:
    data = {"type": "env_read", "details": {"variables": {"REGION": value}}, "aside": True}
    return Draft(type=kind, data=data, ts=1)


@pytest.mark.parametrize("value", ["eu", None, SECRET, b"\xff", 1.0, "1.0"])
def test_events_that_come_again_are_prepared_as_the_first_time(value: object) -> None:
    redactor = Redactor("default")
    prepared_cache = PreparedCache(redactor)
    fresh = prepare(env_read(value), redactor)
    assert SECRET.encode() not in fresh.payload
    for _ in range(3):
        assert prepared_cache.prepare(env_read(value)) == fresh
    assert prepared_cache.prepare(env_read("other")) == prepare(env_read("other"), redactor)


def test_a_variable_that_changes_is_recorded_with_its_new_value(tmp_path: Path) -> None:
    options = Options(redactor=Redactor("default"), durability="none")
    prepared_cache = PreparedCache(options.redactor)
    events = []
    for value in ("eu", "eu", "us"):
        sink = BufferedSink(
            tmp_path / "capture",
            clock=start_clock(),
            options=options,
            prepared_cache=prepared_cache,
        )
        sink.start(memory_seed("default"))
        sink.append(env_read(value))
        sink.finalize()
        assert sink.contents is not None
        events.append(sink.contents.events)
    assert [b'"REGION":"eu"' in one for one in events] == [True, True, False]
    assert b'"REGION":"us"' in events[2]
