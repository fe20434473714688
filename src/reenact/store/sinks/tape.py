"""Writing a tape, and giving it its name when it is complete.

A tape that is recorded again is stable, so that its diff only shows real changes. An event with the
same content as an event of the old tape reuses the old line, including its time, its duration and
the server's date. Only changed events have new lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from reenact._system import Clock
from reenact.errors import (
    RecordingError,
    RecordingExists,
    SinkError,
    SinkUnwritable,
    UsageError,
    ValueRefused,
    WriterBusy,
)
from reenact.format.canonical import decode, stored
from reenact.format.content_hash import without_volatile
from reenact.format.event import Draft, Event, TapePrefix
from reenact.format.manifest import BlobTotals, Flag, Manifest, Seed
from reenact.policy.redaction.redactor import Mark
from reenact.store.blobs import Blobs
from reenact.store.files import (
    create_locked,
    create_private,
    drop_folder,
    is_locked,
    make_private_folder,
    not_removed,
    open_regular,
    sync_file,
    unwritable,
)
from reenact.store.integrity import LogTotals, close_manifest, referenced_blobs
from reenact.store.log import Log
from reenact.store.reader import (
    first_line,
    open_tape,
    part_path,
    read_header,
    scan_tape,
    tape_blobs,
    tape_lines,
)
from reenact.store.sinks.base import Options, Status, Writer, watch_forks
from reenact.store.source import LogSource
from reenact.store.stream_journal import Note, journal_path

__all__ = [
    "VOLATILE_HEADERS",
    "TapeSink",
    "gather_blobs",
    "header_of",
    "publish",
    "reuse_lines",
    "reused_lines_path",
    "tidy_tape",
    "with_old_identity",
]

_BLOB_NAME = re.compile(r"[0-9a-f]{64}(?:\..*)?")


class TapeSink:
    """Writes a tape. See :class:`reenact.store.sinks.base.Sink` for the contract.

    With ``replace`` an existing tape is replaced by the finished new one, in one step; one that
    could not be written to its end replaces nothing and cannot be finalised. With ``keeps`` events
    that say the same as before keep their lines, and a tape in which all do is not touched. A tape
    holds whole payloads (a delta would change with its neighbours, and so every later line of a
    diff) and is never sealed (it is made to be shared).
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        options: Options | None = None,
        replace: bool = False,
        keeps: bool = False,
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._keeps = keeps
        self._options = msgspec.structs.replace(
            options or Options(), deltas=False, shows=True, seal=None
        )
        self._replace = replace
        self._writer: Writer | None = None
        self._seed: Seed | None = None
        self._manifest: Manifest | None = None
        self._discarded = False
        self._gathered = False
        self._forked = False
        self._warned = False

    def start(self, seed: Seed) -> None:
        if self._writer is not None:
            raise UsageError("this sink has been started already")
        part = part_path(self.path)
        try:
            self._check_place(part)
            self._writer = self._open(part, seed)
        except (OSError, ValueError) as error:
            raise unwritable(self.path, error) from None
        self._seed = seed
        watch_forks(self)

    def _check_place(self, part: Path) -> None:
        if self.path.exists() and not self._replace:
            raise RecordingExists(
                f"{self.path} already exists", hint="choose another place, or say overwrite"
            )
        if part.exists():
            self._check_part(part)

    def _check_part(self, part: Path) -> None:
        if is_locked(part):
            raise _busy(self.path)
        if not self._replace:
            raise RecordingExists(
                f"{part} is a recording that was never finished",
                hint=f"reenact recover {self.path}, or say overwrite to give it up",
            )
        journal_path(part).unlink(missing_ok=True)
        reused_lines_path(part).unlink(missing_ok=True)
        part.unlink()
        shutil.rmtree(tape_blobs(part).folder, ignore_errors=True)

    def _open(self, part: Path, seed: Seed) -> Writer:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            log = Log(create_locked(part), part)
        except FileExistsError:
            raise _busy(self.path) from None
        try:
            log.append(stored(seed.to_json()) + b"\n")
        except OSError:
            log.close()
            part.unlink()
            raise
        blobs = tape_blobs(part)
        return Writer(log, TapePrefix(), blobs, None, self._options, lambda: scan_tape(part, blobs))

    def append(self, event: Draft) -> int:
        return self.append_copy(event, ())

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        """Append a copied event. A tape never seals values."""
        if self._writer is not None:
            return self._writer.append(event, received)
        if not self._forked:
            raise UsageError("start the sink before appending to it")
        if not self._warned:
            self._warned = True
            self._options.warn(
                f"{self.path} is a tape, which holds one process: what this forked child does is "
                "not recorded (a capture directory would)"
            )
        return 0

    def begin(self, event: Draft, position: int) -> Note | None:
        return None if self._writer is None else self._writer.begin(event, position)

    def flag(self, flag: Flag) -> None:
        if self._writer is not None:
            self._writer.flags.add(flag)

    def after_fork(self) -> None:
        """In a forked child: a tape holds one process, so the child records nothing."""
        if self._writer is None or self._manifest is not None or self._discarded:
            return
        self._writer.release()
        self._writer = None
        self._forked = True

    def leave(self) -> None:
        """In a forked child: there is nothing to close."""

    def discard(self) -> None:
        writer, part = self._writer, part_path(self.path)
        if writer is None or self._manifest is not None:
            return
        writer.stop()
        self._discarded = True
        try:
            if writer.owns(part):
                _drop_part(self.path, gathered=self._gathered)
        except OSError as error:
            raise not_removed(part, error) from None
        finally:
            writer.release()

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        if self._manifest is not None:
            return self._manifest
        if self._discarded:
            raise SinkError("this recording was given up", hint="start a new one")
        if self._writer is None or self._seed is None:
            raise UsageError("only the process that started a tape finalises it")
        self._writer.close()
        status, error = self._writer.outcome(status, error)
        if self._writer.failure and self.path.exists():
            self._writer.release()
            raise SinkUnwritable(
                f"the tape that was to replace {self.path} is not whole: {self._writer.failure}",
                hint=f"the old recording is unchanged, the new recording is in {part_path(self.path).name}",
            )
        try:
            kept = self._kept_lines(self._seed)
            if isinstance(kept, Manifest):
                self.discard()
                self._manifest = kept
                return kept
            self._gathered = True
            self._manifest = publish(
                self.path,
                self._seed,
                self._sums(self._writer, kept),
                file=kept,
                completed_at=self._clock(),
                status=status,
                error=error,
                sync=self._options.durability != "none",
            )
        except OSError as problem:
            raise unwritable(self.path, problem) from None
        self._writer.release()
        return self._manifest

    def _kept_lines(self, seed: Seed) -> Path | Manifest | None:
        if not self._keeps or not self.path.exists():
            return None
        return reuse_lines(part_path(self.path), self.path, seed)

    def _sums(self, writer: Writer, kept: Path | None) -> LogTotals:
        found = writer.sums()
        if kept is None:
            return found
        anew = scan_tape(kept, gather_blobs(self.path))
        anew.flags |= found.flags
        return anew


def publish(
    tape: Path,
    seed: Seed,
    sums: LogTotals,
    *,
    file: Path | None = None,
    completed_at: int,
    status: str,
    error: str | None = None,
    sync: bool = True,
) -> Manifest:
    """Close ``NAME.part``, or the ``file`` that is made of it, and give it its own name; blobs it
    does not refer to are removed."""
    part, blobs = part_path(tape), gather_blobs(tape)
    whole = file or part
    known = _references(whole, seed, blobs)
    sums.flags.add(Flag.REVIEWED)
    manifest = close_manifest(
        seed,
        sums,
        blobs=BlobTotals(len(known), sum(known.values())),
        completed_at=completed_at,
        status=status,
        error=error,
    )
    begun = seed.to_json()
    # The closing line completes the header, and replaces what was not known at the start: the model.
    rest = {name: item for name, item in manifest.to_json().items() if begun.get(name) != item}
    with whole.open("ab") as log:
        log.write(stored({"closed": rest}) + b"\n")
        log.flush()
        if sync:
            os.fsync(log.fileno())
    whole.replace(tape)
    part.unlink(missing_ok=True)
    if sync:
        sync_file(tape.parent)
    _tidy(tape, known)
    return manifest


def gather_blobs(tape: Path) -> Blobs:
    """Link the blobs of ``NAME.part`` into the folder of the finished tape. Can be repeated.

    The blobs of the part stay until the tape is finished. A tape that is about to be replaced must
    stay complete until then, and the added blobs must be removable.
    """
    blobs, own = tape_blobs(tape), tape_blobs(part_path(tape))
    for file in own.files():
        target = blobs.folder / file.relative_to(own.folder)
        make_private_folder(blobs.folder)
        make_private_folder(target.parent)
        if not target.exists():
            _link(file, target)
    return blobs


def _link(file: Path, target: Path) -> None:
    try:
        os.link(file, target)
    except OSError:  # a file system without hard links
        beside = target.with_name(f"{target.name}.tmp")
        with open_regular(file) as content, open(create_private(beside), "wb") as copy:
            shutil.copyfileobj(content, copy, 1 << 20)
        beside.replace(target)


def _drop_part(tape: Path, *, gathered: bool) -> None:
    """Remove an unfinished tape: its events first, its name and with it the lock last."""
    part = part_path(tape)
    os.truncate(part, len(first_line(part)))
    if gathered:
        with contextlib.suppress(RecordingError):  # an older tape that is damaged keeps them all
            _take_back(tape)
    drop_folder(tape_blobs(part).folder)
    reused_lines_path(part).unlink(missing_ok=True)
    part.unlink()


def _take_back(tape: Path) -> None:
    """Undo :func:`gather_blobs`: an older tape keeps the blobs that it refers to."""
    blobs, own = tape_blobs(tape), tape_blobs(part_path(tape))
    kept: set[Path] = set()
    if tape.exists():
        with open_tape(tape) as old:
            kept = {blobs.path(digest) for digest in old.referenced_blobs()}
    for file in own.files():
        target = blobs.folder / file.relative_to(own.folder)
        if target not in kept:
            target.unlink(missing_ok=True)
            for folder in (target.parent, blobs.folder):
                with contextlib.suppress(OSError):  # it is in use
                    folder.rmdir()


def tidy_tape(source: LogSource) -> None:
    """Remove what a kill left around a tape that is complete."""
    _tidy(source.path, source.referenced_blobs())


def _tidy(tape: Path, known: dict[str, int]) -> None:
    _drop_others(tape_blobs(tape), known)
    if not part_path(tape).exists():
        shutil.rmtree(tape_blobs(part_path(tape)).folder, ignore_errors=True)


def _references(part: Path, seed: Seed, blobs: Blobs) -> dict[str, int]:
    lines = tape_lines(part, blobs, first_line(part), seed)
    try:
        return referenced_blobs(lines, blobs)
    finally:
        lines.close()


def _drop_others(blobs: Blobs, known: dict[str, int]) -> None:
    """Remove the blobs of a replaced or abandoned recording under the same name, nothing else."""
    kept = {blobs.path(digest) for digest in known}
    for file in blobs.files():
        if file not in kept and _BLOB_NAME.fullmatch(file.name):
            file.unlink()


def _busy(path: Path) -> WriterBusy:
    return WriterBusy(
        f"{path} is being written by another process",
        hint="wait for it to end, or record to another file",
    )


VOLATILE_HEADERS: Final = frozenset(
    """
    age alt-svc cf-cache-status cf-ray date expires nel openai-processing-ms report-to request-id
    server-timing traceparent tracestate x-amz-cf-id x-amz-id-2 x-amz-request-id x-amzn-requestid
    x-amzn-trace-id x-cache x-cache-hits x-cloud-trace-context x-correlation-id
    x-envoy-upstream-service-time x-github-request-id x-process-time x-request-id
    x-response-time x-runtime x-served-by x-timer x-trace-id
    """.split()
)
"""Headers that differ in every answer and say nothing about it."""
_LIMITS: Final = ("ratelimit-", "x-ratelimit-", "anthropic-ratelimit-")
_BOOKS: Final = frozenset({"rawHash", "timing", "valueHash", "volatile"})

_Content = tuple[str, str, bytes]


def header_of(tape: Path) -> Seed | None:
    """Return the header of the tape that is about to be replaced; None if it cannot be read."""
    try:
        return read_header(first_line(tape), tape.name)
    except (RecordingError, OSError):
        return None


def with_old_identity(seed: Seed, old: Seed, *kept: str) -> Seed:
    """``seed`` with what of ``old`` is still true of what takes its place: whose recording it is, and
    since when; and of its environment ``argvDigest`` and what else is to be ``kept``."""
    environment = {**seed.environment}
    for name in ("argvDigest", *kept):
        environment.pop(name, None)
        if name in old.environment:
            environment[name] = old.environment[name]
    return msgspec.structs.replace(
        seed,
        capture_id=old.capture_id,
        run_id=old.run_id,
        created_at=old.created_at,
        environment=environment,
        extra=old.extra,
    )


def reused_lines_path(part: Path) -> Path:
    """Return the path of the reused lines of a new tape before its closing line is written."""
    return part.with_name(f"{part.name}.kept")


def reuse_lines(part: Path, tape: Path, seed: Seed) -> Path | Manifest | None:
    """Replace the lines of ``part`` with the lines of ``tape`` for events with the same content.

    Returns the file to close instead of ``part``, the manifest of ``tape`` if nothing changed, or
    None if no line can be reused.
    """
    try:
        with open_tape(tape) as old:
            return _keep(part, old, seed)
    except RecordingError:
        return None  # the new tape replaces it


def _keep(part: Path, old: LogSource, seed: Seed) -> Path | Manifest | None:
    header = first_line(part)
    lines = tape_lines(part, tape_blobs(part), header, seed)
    try:
        same = _same_events(lines.verified_events(), old)
        if not any(same):
            return None
        manifest = old.manifest()
        is_whole = same == list(range(1, len(old) + 1)) and manifest.status == "ok"
        if is_whole and stored(seed.to_json()) + b"\n" == first_line(old.path):
            return manifest
        target, prefix = reused_lines_path(part), TapePrefix()
        with open(create_private(target), "wb") as file:
            file.write(header)
            for seq, event in enumerate(lines.verified_events(), 1):
                line = lines.line(seq) or b""
                file.write(_old_line(prefix, event, old, same[seq - 1]) if same[seq - 1] else line)
        return target
    finally:
        lines.close()


def _old_line(prefix: TapePrefix, event: Event, old: LogSource, seq: int) -> bytes:
    """The line of event ``seq`` of ``old``, at the place that ``event`` has."""
    draft = Draft(
        type=event.type,
        data={},
        ts=old.at(seq).ts,
        lane=event.lane,
        parent=event.parent,
        extra=old.extra(seq),
    )
    return prefix.line(event.seq, draft, old.stored(seq))


def _same_events(new: Iterator[Event], old: LogSource) -> list[int]:
    """Return for each new event the seq of the old event with the same content, or 0. Each is used
    once.
    """
    known: defaultdict[_Content, deque[int]] = defaultdict(deque)
    for event in old:
        known[_content(event)].append(event.seq)
    found = []
    for event in new:
        seqs = known.get(_content(event))
        found.append(seqs.popleft() if seqs else 0)
    return found


def _content(event: Event) -> _Content:
    """Return the content of an event without times, durations and parts that differ in every
    response.
    """
    payload = event.payload
    try:
        payload = stored(_settled(decode(payload)))
    except ValueRefused:
        pass  # what cannot be looked into is compared to the letter
    return event.type, event.lane, hashlib.sha256(payload).digest()


def _settled(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    listed = data.get("volatile")
    if isinstance(listed, list):
        data = without_volatile(data, (one for one in listed if isinstance(one, str)))
    data = {name: item for name, item in data.items() if name not in _drawn_books(data)}
    for part in ("response", "sent"):
        said = data.get(part)
        if isinstance(said, dict) and isinstance(said.get("headers"), list):
            data[part] = {**said, "headers": list(filter(_counts, said["headers"]))}
    return data


def _drawn_books(data: dict[str, Any]) -> frozenset[str]:
    """Drop the hash of a response, which covers its date. The hash of a value is its only content."""
    return _BOOKS if "response" in data else _BOOKS - {"valueHash"}


def _counts(pair: Any) -> bool:
    if not isinstance(pair, list) or not pair or not isinstance(pair[0], str):
        return True
    name = pair[0].lower()
    return name not in VOLATILE_HEADERS and not name.startswith(_LIMITS)
