"""Recovery of a recording that its writer never closed.

Every complete line stays unchanged. Calls whose result was incomplete are added as far as it had
arrived. Torn bytes are moved to ``torn/`` (for a tape: ``NAME.torn``), and the report lists them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from reenact._system import Now
from reenact.errors import (
    RecordingDamaged,
    RecordingMissing,
    RecordingUnfinished,
    ValueRefused,
    WriterBusy,
)
from reenact.format.canonical import stored
from reenact.format.event import Envelope, TapePrefix
from reenact.format.manifest import FORMAT, Manifest, Model, RedactionInfo, Seed, check_version
from reenact.policy.redaction.redactor import Redactor
from reenact.store.blobs import Blobs
from reenact.store.files import (
    BLOBS,
    EVENTS,
    MANIFEST,
    MERGED,
    OPEN,
    create_private,
    drop_empty_segments,
    drop_marks,
    is_locked,
    open_regular,
    replace_file,
    segment_files,
    try_folder_lock,
    unwritable,
)
from reenact.store.integrity import (
    blob_totals,
    close_manifest,
    encode_manifest,
    set_orphans_aside,
    set_tail_aside,
)
from reenact.store.log import LogReader, whole_lines, whole_size
from reenact.store.reader import (
    drop_closing_line,
    open_directory,
    open_recording,
    part_path,
    read_header,
    scan_tape,
    tape_lines,
)
from reenact.store.sinks.directory import finish_swap
from reenact.store.sinks.segments import finish_merge, merge, read_open
from reenact.store.sinks.tape import gather_blobs, publish, tidy_tape
from reenact.store.stream_journal import add_unfinished, recover_journal
from reenact.store.verify import check_blob_sizes, check_event

__all__ = ["Recovery", "recover"]


@dataclass(frozen=True, slots=True)
class Recovery:
    """Result of a recovery.

    ``cut`` describes the bytes that were set aside. ``unfinished`` is the number of added calls
    whose result was incomplete.
    """

    manifest: Manifest
    cut: tuple[str, ...] = ()
    already_whole: bool = False
    unfinished: int = 0


def recover(path: Path, now: Now, *, cut_damage: bool = False) -> Recovery:
    """Finish the recording at ``path``. With ``cut_damage`` it ends before the first bad line.

    Raises :class:`WriterBusy` while its writer lives, :class:`RecordingMissing` when there is
    nothing, :class:`RecordingDamaged` when a whole line is not an event, and
    :class:`SinkUnwritable` where nothing can be written.
    """
    try:
        if not path.exists():
            finish_swap(path)
        if path.is_dir():
            return _recover_directory(path, now, cut_damage)
        return _recover_tape(path, now, cut_damage)
    except OSError as error:
        raise unwritable(path, error) from None


def _recover_directory(folder: Path, now: Now, cut_damage: bool) -> Recovery:
    with try_folder_lock(folder) as alone:
        if not alone:
            raise WriterBusy(f"{folder} is being recovered already", hint="wait for it to end")
        return _recover_alone(folder, now, cut_damage)


def _recover_alone(folder: Path, now: Now, cut_damage: bool) -> Recovery:
    if (folder / MANIFEST).exists():
        with open_directory(folder) as source:
            if not is_locked(folder / OPEN):
                drop_marks(folder)
            return Recovery(source.manifest(), already_whole=True)
    if not (folder / EVENTS).exists() and not (folder / MERGED).exists():
        raise RecordingMissing(f"{folder} holds no events to recover", hint="check the path")
    if is_locked(folder / OPEN) or any(map(is_locked, segment_files(folder))):
        raise WriterBusy(
            f"{folder} is still being written", hint="wait for the program to end, or stop it"
        )
    seed = _seed(folder)
    cut, unfinished = _mend_logs(folder, seed, cut_damage)
    sums = finish_merge(folder) if not segment_files(folder) else merge(folder)
    drop_empty_segments(folder)
    cut += [f"blob {name}, which no event refers to" for name in set_orphans_aside(folder)]
    manifest = close_manifest(
        seed, sums, blobs=blob_totals(Blobs(folder / BLOBS)), completed_at=now(), status="recovered"
    )
    replace_file(folder / MANIFEST, encode_manifest(manifest))
    drop_marks(folder)
    return Recovery(manifest, tuple(cut), unfinished=unfinished)


def _mend_logs(folder: Path, seed: Seed, cut_damage: bool) -> tuple[list[str], int]:
    cut: list[str] = []
    unfinished = 0
    for log in (folder / EVENTS, *segment_files(folder)):
        if not log.exists():
            continue
        keep = _whole_events(LogReader(log, Blobs(folder / BLOBS)), seed, cut_damage)
        size = set_tail_aside(log, folder, keep=keep)
        if size:
            cut.append(f"{size} bytes after the last complete event of {log.name}")
        unfinished += recover_journal(log, folder, seed)
    return cut, unfinished


def _whole_events(lines: LogReader, seed: Seed, cut_damage: bool) -> int:
    """Return the number of bytes with valid events, checked as strictly as by ``verify``.

    An invalid line is an error unless ``cut_damage`` is set, which ends the log there.
    """
    seq = 0
    try:
        while (found := lines.envelope(seq + 1)) is not None:
            _check_whole(lines, found, seed)
            seq += 1
    except RecordingDamaged:
        if not cut_damage:
            raise
    finally:
        lines.close()
    return lines.end(seq)


def _check_whole(lines: LogReader, found: Envelope, seed: Seed) -> None:
    try:
        check_event(lines.event(found), lines.line(found.seq) or b"", seed)
        check_blob_sizes(bytes(found.data), lines.blobs)
    except ValueRefused as error:
        place = lines.place(found.seq)
        raise RecordingDamaged(
            f"{place}: {error.message}", place=f"{place}, field {error.path}"
        ) from None


def _seed(folder: Path) -> Seed:
    """Return the seed from the start of the recording, with the ids that the events contain."""
    begun = read_open(folder)
    log = folder / EVENTS if (folder / EVENTS).exists() else folder / MERGED
    first = next(whole_lines(log), None)
    if begun is not None:
        check_version(begun.seed.to_json(), OPEN)
        seed = msgspec.structs.replace(begun.seed, event_log_path=EVENTS)
        return seed if first is None else _with_ids_of(first, seed)
    if first is None:
        raise RecordingUnfinished(
            f"{folder} has neither a complete event nor a readable {OPEN}: nothing to recover",
            hint="remove it and record again",
        )
    try:
        found = msgspec.json.decode(first, type=Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
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


def _with_ids_of(line: bytes, seed: Seed) -> Seed:
    try:
        found = msgspec.json.decode(line, type=Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return seed
    return msgspec.structs.replace(seed, capture_id=found.capture_id, run_id=found.run_id)


def _recover_tape(tape: Path, now: Now, cut_damage: bool) -> Recovery:
    part = part_path(tape)
    if not part.exists():
        with open_recording(tape) as source:
            tidy_tape(source)
            return Recovery(source.manifest(), already_whole=True)
    if is_locked(part):
        raise WriterBusy(
            f"{tape} is still being written", hint="wait for the program to end, or stop it"
        )
    if tape.exists():
        with open_recording(tape) as source:
            tidy_tape(source)
        raise RecordingUnfinished(
            f"both {tape} and an unfinished {part.name} are there",
            hint=f"move one of them away: {tape.name} is the older, complete recording",
        )
    return _close_part(tape, part, now, cut_damage)


def _close_part(tape: Path, part: Path, now: Now, cut_damage: bool) -> Recovery:
    with open_regular(part) as file:
        header = file.readline()
    seed = read_header(header, part.name)
    if header != stored(seed.to_json()) + b"\n":  # it stays as it is, and must say what we read
        place = f"{part.name} line 1"
        raise RecordingDamaged(f"{place} is not what was written", place=place)
    blobs = gather_blobs(tape)
    torn = _cut_part(tape, part, whole_size(part))
    drop_closing_line(part)
    keep = _whole_events(tape_lines(part, blobs, header, seed), seed, cut_damage)
    torn += _cut_part(tape, part, keep)
    unfinished = _settle_part(part, blobs, header, seed)
    sums = scan_tape(part, blobs)
    manifest = publish(tape, seed, sums, completed_at=now(), status="recovered")
    cut = (f"{torn} bytes after the last complete event",) if torn else ()
    return Recovery(manifest, cut, unfinished=unfinished)


def _settle_part(part: Path, blobs: Blobs, header: bytes, seed: Seed) -> int:
    lines = tape_lines(part, blobs, header, seed)
    try:
        prefix = TapePrefix()
        return add_unfinished(part, lines, prefix, Redactor(seed.redaction.profile))
    finally:
        lines.close()


def _cut_part(tape: Path, part: Path, keep: int) -> int:
    with part.open("rb+") as file:
        file.seek(keep)
        tail = file.read()
        if tail:
            torn = tape.with_name(f"{tape.name}.torn")
            with open(create_private(torn, os.O_APPEND), "ab") as aside:
                aside.write(tail)
            file.truncate(keep)
    return len(tail)
