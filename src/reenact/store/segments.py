"""Merging the logs of several processes into one, in the order of their time stamps.

All processes of a capture stamp with one system-wide clock, so the merged order is the order in
which things happened, to the millisecond; inside each process it is exact. The steps are such
that a kill between any two of them is repaired by doing it again:

1. ``merged.jsonl`` is written beside and renamed: from then on it is the truth,
2. the segments (and their sealed values, merged likewise) are removed,
3. ``merged.jsonl`` takes the place of ``events.jsonl``.
"""

from __future__ import annotations

import heapq
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import orjson

from reenact.format import lane as lanes
from reenact.format.event import Envelope
from reenact.format.manifest import Flag
from reenact.store.blobs import Blobs
from reenact.store.file_access import create_private, write_private
from reenact.store.layout import (
    BLOBS,
    EVENTS,
    MERGED,
    SEALED,
    SEALED_MERGED,
    SEGMENTS,
    segment_files,
)
from reenact.store.lines import Lines
from reenact.store.log import sync_file
from reenact.store.resolving import BESIDE, is_delta
from reenact.store.sealed import read_sealed
from reenact.store.sums import Sums, scan
from reenact.store.torn import set_orphans_aside, set_tail_aside

__all__ = ["finish_merge", "merge"]

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_Item = tuple[int, tuple[int, ...], int, bytes, Envelope]


def merge(folder: Path) -> Sums:
    """Merge every segment into ``events.jsonl`` and add the result up.

    What processes that were killed left half-done goes to ``torn/``.
    """
    if not (folder / MERGED).exists():
        for segment in segment_files(folder):
            set_tail_aside(segment, folder)
        _write_merged(folder)
    sums = finish_merge(folder)
    set_orphans_aside(folder)
    return sums


def finish_merge(folder: Path) -> Sums:
    """Steps 2 and 3, for a merge whose first step is done; then the sums over ``events.jsonl``."""
    if (folder / MERGED).exists():
        shutil.rmtree(folder / SEGMENTS, ignore_errors=True)
        if (folder / SEALED_MERGED).exists():
            (folder / SEALED_MERGED).replace(folder / SEALED)
        (folder / MERGED).replace(folder / EVENTS)
        sync_file(folder)
    lines = Lines(folder / EVENTS, Blobs(folder / BLOBS))
    try:
        sums = scan(lines)
    finally:
        lines.close()
    for line in read_sealed(folder / SEALED, skip_damage=True):  # the events matter more
        sums.flags.add(Flag.SEALED)
        sums.sealed_key = line.key
    return sums


def _write_merged(folder: Path) -> None:
    logs = [folder / EVENTS, *segment_files(folder)]
    blobs = Blobs(folder / BLOBS)
    opened = [Lines(log, blobs) for log in logs]
    numbers: list[dict[int, int]] = [{} for _ in logs]
    beside = folder / f"{MERGED}.tmp"
    with open(create_private(beside), "wb") as out:
        streams = [_items(lines, index) for index, lines in enumerate(opened)]
        for seq, (_, _, index, line, found) in enumerate(heapq.merge(*streams, key=_place), 1):
            numbers[index][found.seq] = seq
            out.write(_renumbered(line, found, seq, numbers[index]))
        out.flush()
        os.fsync(out.fileno())
    for lines in opened:
        lines.close()
    _merge_sealed(folder, logs, numbers)
    beside.replace(folder / MERGED)
    sync_file(folder)


def _items(lines: Lines, index: int) -> Iterator[_Item]:
    seq = 1
    while (line := lines.line(seq)) is not None:
        found = lines.parse(line, seq)
        yield found.ts, lanes.order(found.lane), index, line, found
        seq += 1


def _place(item: _Item) -> tuple[int, tuple[int, ...], int]:
    return item[:3]


def _renumbered(line: bytes, found: Envelope, seq: int, numbers: dict[int, int]) -> bytes:
    """The line with its new place. ``data`` comes last, so the first match is the envelope's."""
    line = line.replace(b'"seq":%d,' % found.seq, b'"seq":%d,' % seq, 1)
    if found.parent is not None:
        parent = numbers.get(found.parent, found.parent)
        line = line.replace(b'"parent":%d,' % found.parent, b'"parent":%d,' % parent, 1)
    data = bytes(found.data)
    if is_delta(data):
        members = _members.decode(data)  # what stands beside the delta stays as it is
        step = msgspec.json.decode(members["$delta"])
        step["of"] = [
            base if base == BESIDE else numbers[base] if base > 0 else -numbers[-base]
            for base in step["of"]
        ]
        encoded = orjson.dumps(step, option=orjson.OPT_SORT_KEYS)
        again = msgspec.json.encode({**members, "$delta": msgspec.Raw(encoded)})
        line = line[: line.index(data)] + again + b"}\n"
    return line


def _merge_sealed(folder: Path, logs: list[Path], numbers: list[dict[int, int]]) -> None:
    merged: list[bytes] = []
    for log, known in zip(logs, numbers, strict=True):
        sealed = folder / SEALED if log.parent == folder else log.with_suffix(f".{SEALED}")
        for line in read_sealed(sealed, skip_damage=True):
            if line.seq in known:  # else its event was never completed
                moved = msgspec.structs.replace(line, seq=known[line.seq])
                merged.append(msgspec.json.encode(moved) + b"\n")
    if merged:
        beside = folder / SEALED_MERGED
        beside.touch(mode=0o600)
        write_private(beside, b"".join(merged))
