"""Small recordings for tests: fixed clock, fixed ids, real files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reenact.format.canonical import digest, digest_bytes
from reenact.format.event import Draft
from reenact.format.manifest import FORMAT, Manifest, Model, RedactionInfo, Seed
from reenact.policy.redaction.redactor import Redactor
from reenact.store.reader import open_recording
from reenact.store.sinks.base import Options
from reenact.store.sinks.directory import DirectorySink
from reenact.store.sinks.tape import TapeSink
from tests.clocks import Clock

NOW = 1_700_000_000_000
"""Milliseconds since the epoch."""

PLAIN = Options(redactor=Redactor("none"), durability="none")


class FixedClock(Clock, frozen=True):
    """A clock that stands still."""

    def __call__(self) -> int:
        return self.wall_ns // 1_000_000


CLOCK = FixedClock(NOW * 1_000_000, 0)


def make_seed(
    log: str = "events.jsonl", *, capture_id: str = "cap_1", run_id: str = "run_1", **other: Any
) -> Seed:
    values: dict[str, Any] = {
        "version": 1,
        "format": FORMAT,
        "capture_id": capture_id,
        "run_id": run_id,
        "created_at": NOW,
        "mode": "capture",
        "model": Model("example", "m-1"),
        "event_log_path": log,
        "redaction": RedactionInfo(enabled=False, profile="none"),
        "environment": {"python": "3.11.0"},
    }
    return Seed(**{**values, **other})


def draft(kind: str = "x_note", data: dict[str, Any] | None = None, **fields: Any) -> Draft:
    """A draft of a type without minimum fields, unless told otherwise."""
    return Draft(type=kind, data={} if data is None else data, **{"ts": NOW, **fields})


def notes(count: int) -> list[Draft]:
    return [draft(data={"n": number}, ts=NOW + number) for number in range(1, count + 1)]


def is_tape(path: Path) -> bool:
    return path.suffix == ".jsonl"


def make_sink(
    path: Path, options: Options = PLAIN, *, replace: bool = False
) -> DirectorySink | TapeSink:
    """A sink that has not been started: a tape's when ``path`` ends in ``.jsonl``."""
    if is_tape(path):
        return TapeSink(path, clock=CLOCK, options=options, replace=replace)
    return DirectorySink(path, clock=CLOCK, options=options, replace=replace)


def start_sink(
    path: Path, options: Options = PLAIN, *, replace: bool = False, **seed: Any
) -> DirectorySink | TapeSink:
    sink = make_sink(path, options, replace=replace)
    sink.start(make_seed("tape" if is_tape(path) else "events.jsonl", **seed))
    return sink


def record(
    path: Path,
    drafts: Iterable[Draft],
    options: Options = PLAIN,
    *,
    replace: bool = False,
    **seed: Any,
) -> Path:
    """A finished recording."""
    sink = start_sink(path, options, replace=replace, **seed)
    for one in drafts:
        sink.append(one)
    sink.finalize()
    return path


def abandon(path: Path, drafts: Iterable[Draft], options: Options = PLAIN, **seed: Any) -> Path:
    """What a killed writer leaves: everything appended, nothing closed, no lock."""
    sink = start_sink(path, options, **seed)
    for one in drafts:
        sink.append(one)
    sink.after_fork()  # closes the files and frees the lock, as the end of a process does
    return path


def contents(path: Path) -> list[tuple[int, str, str, int | None, dict[str, Any]]]:
    """What a recording holds: (seq, type, lane, parent, data) of every event."""
    with open_recording(path) as source:
        return [(one.seq, one.type, one.lane, one.parent, one.data) for one in source]


def datas(path: Path) -> list[dict[str, Any]]:
    return [data for *_, data in contents(path)]


def read_manifest(path: Path) -> Manifest:
    with open_recording(path) as source:
        return source.manifest()


def raw_lines(path: Path) -> list[bytes]:
    """The lines of a directory's log, or of a tape, without their line ends."""
    log = path / "events.jsonl" if path.is_dir() else path
    return log.read_bytes().splitlines()


def forge(folder: Path, log: bytes) -> None:
    """Put other bytes into a log and make the manifest agree: only a strict reader notices."""
    (folder / "events.jsonl").write_bytes(log)
    raw = json.loads((folder / "manifest.json").read_bytes())
    integrity = {**raw["integrity"], "eventsHash": digest_bytes(log)}
    rewrite_manifest(folder, eventCount=log.count(b"\n"), integrity=integrity)


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    """Edit ``manifest.json`` and make its own hash fit: a writer of another version."""
    raw = json.loads((folder / "manifest.json").read_bytes())
    raw.update(changes)
    del raw["integrity"]["manifestHash"]
    raw["integrity"]["manifestHash"] = digest(raw)
    (folder / "manifest.json").write_text(json.dumps(raw), encoding="utf-8")
