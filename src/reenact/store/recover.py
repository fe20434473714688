"""Closing a recording that its writer never closed.

Every whole line stays as it is. What a kill tore goes to ``torn/`` (for a tape: ``NAME.torn``),
and the report says what was cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from reenact._system import Now
from reenact.errors import RecordingDamaged, RecordingMissing, RecordingUnfinished, WriterBusy
from reenact.format.event import Envelope
from reenact.format.manifest import FORMAT, Manifest, Model, RedactionInfo, Seed
from reenact.store.blobs import Blobs
from reenact.store.directory import finish_swap, read_open
from reenact.store.files import alone_in, claimed, replace_file
from reenact.store.layout import BLOBS, EVENTS, MANIFEST, MERGED, OPEN, segment_files
from reenact.store.lines import Lines
from reenact.store.log import whole_lines, whole_size
from reenact.store.reading import open_directory, open_recording
from reenact.store.segments import finish_merge, merge
from reenact.store.sums import blob_totals, close_manifest, encode_manifest
from reenact.store.tape import (
    drop_closing_line,
    gather_blobs,
    part_path,
    publish,
    read_header,
    scan_tape,
    tape_lines,
)
from reenact.store.torn import set_orphans_aside, set_tail_aside

__all__ = ["Recovery", "recover"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """What recovery did. ``cut`` lists what was set aside, in words."""

    manifest: Manifest
    cut: tuple[str, ...] = ()
    already_whole: bool = False


def recover(path: Path, now: Now, *, cut_damage: bool = False) -> Recovery:
    """Finish the recording at ``path``. With ``cut_damage`` it ends before the first bad line.

    Raises :class:`WriterBusy` while its writer lives, :class:`RecordingMissing` when there is
    nothing, :class:`RecordingDamaged` when a whole line is not an event.
    """
    if not path.exists():
        finish_swap(path)
    if path.is_dir():
        return _recover_directory(path, now, cut_damage)
    return _recover_tape(path, now, cut_damage)


def _recover_directory(folder: Path, now: Now, cut_damage: bool) -> Recovery:
    with alone_in(folder) as alone:
        if not alone:
            raise WriterBusy(f"{folder} is being recovered already", hint="wait for it to end")
        return _recover_alone(folder, now, cut_damage)


def _recover_alone(folder: Path, now: Now, cut_damage: bool) -> Recovery:
    if (folder / MANIFEST).exists():
        with open_directory(folder) as source:
            return Recovery(source.manifest(), already_whole=True)
    if not (folder / EVENTS).exists() and not (folder / MERGED).exists():
        raise RecordingMissing(f"{folder} holds no events to recover", hint="check the path")
    if claimed(folder / OPEN) or any(map(claimed, segment_files(folder))):
        raise WriterBusy(
            f"{folder} is still being written", hint="wait for the program to end, or stop it"
        )
    cut = _cut_logs(folder, cut_damage)
    seed = _seed(folder)
    sums = finish_merge(folder) if not segment_files(folder) else merge(folder)
    cut += [f"blob {name}, which no event refers to" for name in set_orphans_aside(folder)]
    manifest = close_manifest(
        seed,
        sums,
        blobs=blob_totals(Blobs(folder / BLOBS)),
        completed_at=now(),
        status="recovered",
    )
    replace_file(folder / MANIFEST, encode_manifest(manifest))
    (folder / OPEN).unlink(missing_ok=True)
    return Recovery(manifest, tuple(cut))


def _cut_logs(folder: Path, cut_damage: bool) -> list[str]:
    cut: list[str] = []
    for log in (folder / EVENTS, *segment_files(folder)):
        if not log.exists():
            continue
        keep = None
        if cut_damage:
            keep = _whole_events(Lines(log, Blobs(folder / BLOBS)))
        size = set_tail_aside(log, folder, keep=keep)
        if size:
            cut.append(f"{size} bytes behind the last whole event of {log.name}")
    return cut


def _whole_events(lines: Lines) -> int:
    """How many bytes of a log are good events, up to the first bad line."""
    seq = 0
    try:
        while (found := lines.envelope(seq + 1)) is not None:
            lines.payload(found)
            seq += 1
    except RecordingDamaged:
        pass  # this is the end that was asked for
    finally:
        lines.close()
    return lines.end(seq)


def _seed(folder: Path) -> Seed:
    begun = read_open(folder)
    if begun is not None:
        return begun.seed
    log = folder / EVENTS if (folder / EVENTS).exists() else folder / MERGED
    first = next(whole_lines(log), None)
    if first is None:
        raise RecordingUnfinished(
            f"{folder} has neither a whole event nor a readable {OPEN}: nothing to recover",
            hint="remove it and record again",
        )
    try:
        found = msgspec.json.decode(first, type=Envelope)
    except msgspec.DecodeError as error:
        raise RecordingDamaged(f"{EVENTS} line 1: {error}", place=f"{EVENTS} line 1") from None
    return Seed(
        version=1,
        format=FORMAT,
        capture_id=found.capture_id,
        run_id=found.run_id,
        created_at=found.ts,
        mode="capture",
        model=Model(),
        event_log_path=EVENTS,
        redaction=RedactionInfo(enabled=False, profile="none"),
        environment={},
    )


def _recover_tape(tape: Path, now: Now, cut_damage: bool) -> Recovery:
    part = part_path(tape)
    if not part.exists():
        with open_recording(tape) as source:
            return Recovery(source.manifest(), already_whole=True)
    if claimed(part):
        raise WriterBusy(
            f"{tape} is still being written", hint="wait for the program to end, or stop it"
        )
    if tape.exists():
        raise RecordingUnfinished(
            f"both {tape} and an unfinished {part.name} are there",
            hint=f"move one of them away: {tape.name} is the older, complete recording",
        )
    return Recovery(*_close_part(tape, part, now, cut_damage))


def _close_part(
    tape: Path, part: Path, now: Now, cut_damage: bool
) -> tuple[Manifest, tuple[str, ...]]:
    with part.open("rb") as file:
        header = file.readline()
    seed = read_header(header, part.name)
    blobs = gather_blobs(tape)
    keep = whole_size(part)
    if cut_damage:
        keep = _whole_events(tape_lines(part, blobs, header, seed))
    torn = _cut_part(tape, part, keep)
    drop_closing_line(part)
    sums = scan_tape(part, blobs)
    manifest = publish(tape, seed, sums, completed_at=now(), status="recovered")
    return manifest, (f"{torn} bytes behind the last whole event",) if torn else ()


def _cut_part(tape: Path, part: Path, keep: int) -> int:
    with part.open("rb+") as file:
        file.seek(keep)
        tail = file.read()
        if tail:
            tape.with_name(f"{tape.name}.torn").write_bytes(tail)
            file.truncate(keep)
    return len(tail)
