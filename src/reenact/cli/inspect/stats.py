"""The ``stats`` command: sizes, counts, and savings by deduplication."""

from __future__ import annotations

import argparse
import heapq
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reenact.cli._output import count, escape_controls, json_line, rows, share, size, span
from reenact.cli._parser import Command, Parser, json_flag, recordings
from reenact.cli._recordings import parent_json, parent_line, recording_at
from reenact.format.event import lane_order
from reenact.format.manifest import Manifest
from reenact.store.files import BLOBS, EVENTS, MANIFEST, SEALED, SIGNATURE, TORN
from reenact.store.payload_decoder import is_delta
from reenact.store.reader import open_recording
from reenact.store.source import LogSource

__all__ = ["COMMANDS"]

_BIGGEST = 5
_MOST_LANES = 12


@dataclass(frozen=True, slots=True)
class _Big:
    size: int
    seq: int
    type: str
    stored: int


@dataclass(slots=True)
class _Numbers:
    """Totals over all events. ``whole`` and ``stored`` are bytes of payload without blobs."""

    types: Counter[str] = field(default_factory=Counter)
    lanes: Counter[str] = field(default_factory=Counter)
    whole: int = 0
    stored: int = 0
    deltas: int = 0
    saved_by_deltas: int = 0
    first: int | None = None
    last: int = 0
    biggest: list[_Big] = field(default_factory=list)


def _arguments(parser: Parser) -> None:
    recordings(parser)
    json_flag("the numbers as JSON, one line per recording")(parser)


def stats(args: argparse.Namespace) -> int:
    for number, text in enumerate(args.path):
        path = recording_at(text)
        with open_recording(path) as source:
            numbers = _add_up(source)
            if args.json:
                print(json_line(_as_json(path, source.manifest(), numbers)))
            else:
                print("\n" * bool(number) + "\n".join(_as_text(path, source.manifest(), numbers)))
    return 0


def _add_up(source: LogSource) -> _Numbers:
    numbers = _Numbers()
    big: list[tuple[int, int, _Big]] = []
    for event in source:
        whole, stored = len(event.payload), source.stored(event.seq)
        numbers.types[event.type] += 1
        numbers.lanes[event.lane] += 1
        numbers.whole += whole
        numbers.stored += len(stored)
        if is_delta(stored):
            numbers.deltas += 1
            numbers.saved_by_deltas += whole - len(stored)
        if numbers.first is None:
            numbers.first = event.ts
        numbers.last = event.ts
        entry = (whole, -event.seq, _Big(whole, event.seq, event.type, len(stored)))
        heapq.heappush(big, entry) if len(big) < _BIGGEST else heapq.heappushpop(big, entry)
    numbers.biggest = [one for *_, one in sorted(big, reverse=True)]
    return numbers


def _on_disk(path: Path) -> dict[str, int]:
    """Return the size of each existing part."""
    if path.is_dir():
        parts = {name: path / name for name in (EVENTS, MANIFEST, BLOBS, SEALED, SIGNATURE, TORN)}
    else:
        beside = (BLOBS, "sig", "torn")
        parts = {"tape": path, **{name: path.with_name(f"{path.name}.{name}") for name in beside}}
    sizes = {name: _bytes(part) for name, part in parts.items() if part.exists()}
    return {**sizes, "total": sum(sizes.values())}


def _bytes(path: Path) -> int:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _as_json(path: Path, manifest: Manifest, numbers: _Numbers) -> dict[str, Any]:
    return {
        "path": str(path),
        "captureId": manifest.capture_id,
        "status": manifest.status,
        **parent_json(manifest),
        "redaction": manifest.redaction.profile,
        "events": manifest.event_count,
        "types": dict(numbers.types.most_common()),
        "lanes": _lanes(numbers),
        "createdAt": manifest.created_at,
        "spanMs": _span(numbers),
        "disk": _on_disk(path),
        "payloads": {
            "whole": numbers.whole,
            "stored": numbers.stored + manifest.blobs.bytes,
            "saved": _saved(manifest, numbers),
            "deltas": {"count": numbers.deltas, "saved": numbers.saved_by_deltas},
            "blobs": {
                "count": manifest.blobs.count,
                "bytes": manifest.blobs.bytes,
                "saved": _saved(manifest, numbers) - numbers.saved_by_deltas,
            },
        },
        "biggest": [
            {"seq": one.seq, "type": one.type, "size": one.size, "stored": one.stored}
            for one in numbers.biggest
        ],
    }


def _lanes(numbers: _Numbers) -> dict[str, int]:
    return {lane: numbers.lanes[lane] for lane in sorted(numbers.lanes, key=lane_order)}


def _span(numbers: _Numbers) -> int:
    return 0 if numbers.first is None else numbers.last - numbers.first


def _saved(manifest: Manifest, numbers: _Numbers) -> int:
    return numbers.whole - numbers.stored - manifest.blobs.bytes


def _as_text(path: Path, manifest: Manifest, numbers: _Numbers) -> list[str]:
    disk = _on_disk(path)
    total = disk.pop("total")
    return [
        f"{escape_controls(str(path))}: {count(manifest.event_count, 'event')}, "
        f"{count(len(numbers.lanes), 'lane')}, {size(total)} on disk",
        f"  recorded   {_moment(manifest.created_at)}, {span(_span(numbers))}, "
        f"status {manifest.status}, redaction {manifest.redaction.profile}",
        *([f"  parent     {line}"] if (line := parent_line(manifest)) else []),
        f"  repetition {_repetition(manifest, numbers)}",
        *_section("on disk", {name: size(amount) for name, amount in disk.items()}),
        *_section("events", {k: f"{n:,}" for k, n in numbers.types.most_common()}),
        *_lane_section(numbers),
        *_biggest(numbers),
    ]


def _moment(milliseconds: int) -> str:
    try:
        return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"


def _repetition(manifest: Manifest, numbers: _Numbers) -> str:
    if not numbers.whole:
        return "none: nothing was stored"
    stored, blobs = numbers.stored + manifest.blobs.bytes, manifest.blobs
    parts = []
    if numbers.deltas:
        parts.append(f"{count(numbers.deltas, 'delta')} saved {size(numbers.saved_by_deltas)}")
    if blobs.count:
        parts.append(f"{count(blobs.count, 'blob')} of {size(blobs.bytes)}")
    detail = f" ({'; '.join(parts)})" if parts else ""
    return (
        f"{size(numbers.whole)} of payload stored in {size(stored)}, "
        f"{share(stored, numbers.whole)}{detail}"
    )


def _section(title: str, cells: dict[str, str]) -> list[str]:
    lines = rows(
        [(escape_controls(name), cell) for name, cell in cells.items()], right=frozenset({1})
    )
    return [f"  {title}", *(f"    {line}" for line in lines)] if lines else []


def _lane_section(numbers: _Numbers) -> list[str]:
    found = _lanes(numbers)
    if len(found) < 2:
        return []
    shown = {lane: f"{found[lane]:,}" for lane in list(found)[:_MOST_LANES]}
    lines = _section("lanes", shown)
    if len(found) > _MOST_LANES:
        lines.append(f"    and {len(found) - _MOST_LANES:,} more")
    return lines


def _biggest(numbers: _Numbers) -> list[str]:
    table = [("seq", "type", "size", "stored as")]
    table += [
        (str(one.seq), escape_controls(one.type), size(one.size), size(one.stored))
        for one in numbers.biggest
    ]
    lines = rows(table, right=frozenset({0, 2, 3})) if numbers.biggest else []
    return ["  biggest events", *(f"    {line}" for line in lines)] if lines else []


COMMANDS = {
    "stats": Command(
        description="Shows what a recording holds: its size on disk, events per type and lane, its biggest "
        "events, and how much storing repetition once has saved.",
        example="reenact stats runs/today",
        arguments=_arguments,
        run=stats,
    ),
}
