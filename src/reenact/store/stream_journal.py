"""Journal of calls in progress, stored next to the log so that a kill does not lose them.

A call is written to the log as one event when it completes. Until then its pieces are lines of the
journal ``<log>.streams``, each redacted and written before the program receives it. A journal that
has grown is emptied while no call is open. Recovery converts the calls that only the journal contains
to events that state how far each call had come.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from reenact.errors import ReenactError
from reenact.format.canonical import canonical, decode, digest_bytes, plain, stored
from reenact.format.event import (
    LONGEST_CHUNK_RUN,
    SCHEDULE,
    Data,
    Draft,
    Prefix,
    chunk_delivery,
    parse_chunk_delivery,
)
from reenact.format.manifest import Seed
from reenact.policy.redaction.redactor import Redactor
from reenact.store.blobs import Blobs
from reenact.store.files import (
    BLOBS,
    PRIVATE_FILE,
    close_descriptor,
    hold_descriptor,
    write_private,
    write_whole,
)
from reenact.store.integrity import set_tail_aside
from reenact.store.log import LogReader, whole_lines
from reenact.store.payload_encoder import prepare

__all__ = ["Journal", "Note", "add_unfinished", "journal_path", "recover_journal"]

_SMALL = 64 * 1024
"""Size in bytes below which a journal is not emptied.

Truncating a file waits until its data is durable, and the program would wait for the first piece of
its response meanwhile.
"""
_LARGE = 4 * 1024 * 1024


def journal_path(log: Path) -> Path:
    """Return the path of the journal of ``log``."""
    return log.with_name(f"{log.name}.streams")


class Journal:
    """Journal of one writer, created on first use. Thread-safe.

    No other note begins between the end of a note and the append that completes it.

    ``next_seq()`` is the seq of the next event of the log. ``touch(path)`` is called after each
    write. Beyond ``small`` bytes the journal is emptied while no call is open; beyond ``large``
    bytes it is compacted when most of it is obsolete. If it cannot be written, nothing happens
    here: the next event of the log reports the failure.
    """

    def __init__(
        self,
        path: Path,
        redactor: Redactor,
        next_seq: Callable[[], int],
        touch: Callable[[Path], None],
        *,
        small: int = _SMALL,
        large: int = _LARGE,
    ) -> None:
        self.path = path
        self._redactor = redactor
        self._next_seq = next_seq
        self._touch = touch
        self._small = small
        self._large = large
        self._fd = -1
        self._size = 0
        self._notes = 0
        self._open: dict[int, int] = {}
        """The bytes of each note that has not ended."""
        self._stopped = False
        self._lock = threading.Lock()

    def begin(self, event: Draft, position: int) -> Note | None:
        """A call at ``position`` of its lane has begun; ``event`` is what is known of the one that
        will complete it. None where nothing may be written of it."""
        payload = self._redacted(event)
        if payload is None:
            return None
        with self._lock:
            # Notes that have ended are in the log by now.
            if not self._open:
                if self._size > self._small:
                    self._empty()
            elif self._size > self._large + 2 * sum(self._open.values()):
                self._shrink()
            self._notes += 1
            self._open[self._notes] = 0
            head = {"id": self._notes, "type": event.type, "lane": event.lane, "ts": event.ts}
            if event.parent is not None:
                head["parent"] = event.parent
            self._write({**head, "position": position}, payload)
            return Note(self, self._notes, event)

    def add(self, number: int, event: Draft) -> None:
        """Add the data of ``event`` to note ``number``."""
        payload = self._redacted(event) or b"{}"
        with self._lock:
            if number in self._open:
                self._write({"id": number, "ts": event.ts}, payload)

    def end(self, number: int) -> None:
        """The next event of the log completes note ``number``."""
        with self._lock:
            if self._open.pop(number, None) is not None:
                self._write({"id": number, "seq": self._next_seq()})

    def _redacted(self, event: Draft) -> bytes | None:
        prepared = prepare(event, self._redactor)
        return None if prepared.warning else prepared.payload

    def _write(self, head: Data, payload: bytes | None = None) -> None:
        line = stored(head)
        if payload is not None:
            line = b'%b,"data":%b}' % (line[:-1], payload)
        if self._stopped:
            return
        try:
            if self._fd < 0:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
                self._fd = hold_descriptor(os.open(self.path, flags, PRIVATE_FILE))
            write_whole(self._fd, line + b"\n", self._size)
            self._size += len(line) + 1
            if head["id"] in self._open:
                self._open[head["id"]] += len(line) + 1
            self._touch(self.path)
        except OSError:
            self._stop()

    def _shrink(self) -> None:
        """One stream may be open for days; keep what is of notes that have not ended."""
        beside = self.path.with_name(f"{self.path.name}.tmp")
        try:
            kept = [line for line in whole_lines(self.path) if _id(line) in self._open]
            write_private(beside, b"".join(kept))
            fd = os.open(beside, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            beside.replace(self.path)
        except OSError:
            self._stop()
            return
        close_descriptor(self._fd)
        self._fd, self._size = hold_descriptor(fd), sum(map(len, kept))

    def _empty(self) -> None:
        if self._size and not self._stopped:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, 0)
                self._size = 0

    def _stop(self) -> None:
        """A journal that does not know what has ended would say that it has not."""
        self._empty()
        self._stopped = True

    def remove(self) -> None:
        """Nothing is open any more, or the recording is given up."""
        with self._lock:
            if self._fd >= 0:
                self.path.unlink(missing_ok=True)
            self.release()

    def release(self) -> None:
        """Close the file, and leave it where it is; in a forked child, which has one thread."""
        self._stopped = True
        if self._fd >= 0:
            close_descriptor(self._fd)
            self._fd = -1


class _Line(msgspec.Struct):
    id: int


_line = msgspec.json.Decoder(_Line)


def _id(line: bytes) -> int:
    return _line.decode(line).id


class Note:
    """One call that is under way."""

    def __init__(self, journal: Journal, number: int, event: Draft) -> None:
        self._journal = journal
        self._number = number
        self._event = event

    def add(self, data: Data, ts: int) -> None:
        """More has come: ``data`` is what it adds to the event. When this returns, a kill loses
        nothing of it."""
        event = self._event
        self._journal.add(self._number, Draft(type=event.type, data=data, ts=ts, lane=event.lane))

    def end(self) -> None:
        """The call is completed by the event that is appended next."""
        self._journal.end(self._number)


class _Call(msgspec.Struct):
    """A call of the journal: what was known at its start, and what each piece added to it."""

    type: str
    lane: str
    position: int
    ts: int
    data: list[Data]
    pieces: list[int]
    """Positions of the pieces in the journal."""
    parent: int | None = None
    """The seq of the event that opened it, if it has one."""
    completed: int = 0
    """The seq of the event that was to complete it."""


class _LoggedCalls(msgspec.Struct):
    """Calls and pieces that the log already contains."""

    events: int = 0
    ts: int = 0
    pieces: dict[tuple[str, int], int] = {}
    """Number of delivered pieces of the stream at this lane and position."""
    calls: set[tuple[str, int]] = set()
    """Unfinished calls that have been added before."""


def add_unfinished(log: Path, lines: LogReader, prefix: Prefix, redactor: Redactor) -> int:
    """Append the calls that only the journal contains to ``log`` and remove the journal.

    ``lines`` reads the log, which ends with a complete line and has no writer. Returns the number
    of added calls. Can be repeated, because a call is never appended twice.
    """
    journal = journal_path(log)
    journal.with_name(f"{journal.name}.tmp").unlink(missing_ok=True)
    if not journal.exists():
        return 0
    told = _read_log(lines)
    calls = [call for call in _read(journal) if not _is_known(call, told)]
    with log.open("ab") as file:
        for seq, draft in enumerate((*_deliveries(calls, told), *map(_completing, calls)), 1):
            later = msgspec.structs.replace(draft, ts=max(draft.ts, told.ts))
            payload = prepare(draft, redactor).payload
            file.write(prefix.line(told.events + seq, later, payload))
        file.flush()
        os.fsync(file.fileno())
    journal.unlink()
    return len(calls)


def recover_journal(log: Path, folder: Path, seed: Seed) -> int:
    """Add unfinished calls to a log in the capture directory ``folder`` after its writer ended."""
    if not journal_path(log).exists():  # made first, and again by renaming
        return 0
    set_tail_aside(log, folder)
    lines = LogReader(log, Blobs(folder / BLOBS))
    try:
        prefix = Prefix(seed.capture_id, seed.run_id)
        return add_unfinished(log, lines, prefix, Redactor(seed.redaction.profile))
    finally:
        lines.close()


def _is_known(call: _Call, told: _LoggedCalls) -> bool:
    return 0 < call.completed <= told.events or (call.lane, call.position) in told.calls


def _read(journal: Path) -> list[_Call]:
    calls: dict[int, _Call] = {}
    for number, line in enumerate(whole_lines(journal)):
        with contextlib.suppress(ReenactError, KeyError, TypeError, ValueError):
            _take(calls, plain(decode(line)), number)
    return list(calls.values())


def _take(calls: dict[int, _Call], line: Data, number: int) -> None:
    known = calls.get(line["id"])
    if known is None:
        place = (line["type"], line["lane"], line["position"])
        calls[line["id"]] = _Call(*place, line["ts"], [line["data"]], [], line.get("parent"))
    elif "seq" in line:
        known.completed = line["seq"]
    else:
        known.ts = line["ts"]
        known.data.append(line["data"])
        known.pieces.append(number)


def _joined(parts: list[Any]) -> Any:
    """Objects by their fields; lists, texts and bytes one behind the other; else the last."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, dict) for part in parts):
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: _joined([part[name] for part in parts if name in part]) for name in names}
    if all(isinstance(part, list) for part in parts):
        return [item for part in parts for item in part]
    if all(isinstance(part, (str, bytes)) for part in parts):
        return _text(parts)
    return parts[-1]


def _text(parts: list[str | bytes]) -> str | bytes:
    """A piece that ends in the middle of a character is bytes, and so is the one behind it."""
    raw = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    if all(isinstance(part, bytes) for part in parts):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _completing(call: _Call) -> Draft:
    data: Data = {**_joined(call.data), "position": call.position}
    response = data.get("response", data.get("result"))
    data |= {"unfinished": True} if response is None else {"ended": "unfinished"}
    if call.parent is None:
        data["valueHash"] = digest_bytes(canonical(response))
    return Draft(type=call.type, data=data, ts=call.ts, lane=call.lane, parent=call.parent)


def _read_log(lines: LogReader) -> _LoggedCalls:
    told = _LoggedCalls()
    while (found := lines.envelope(told.events + 1)) is not None:
        told.events, told.ts = found.seq, found.ts
        stored = bytes(found.data)
        if b'"chunk:' in stored or b'"unfinished"' in stored:
            _hear(told, found.lane, lines.event(found).data)
    return told


def _hear(told: _LoggedCalls, lane: str, data: Data) -> None:
    position = data.get("position")
    run = parse_chunk_delivery(data.get("key"), data.get("count"))
    if run is not None and data.get("source") == SCHEDULE:
        told.pieces[lane, run[0]] = run[1] + run[2]
    elif type(position) is int and (data.get("unfinished") or data.get("ended") == "unfinished"):
        told.calls.add((lane, position))


def _deliveries(calls: list[_Call], told: _LoggedCalls) -> Iterator[Draft]:
    """The deliveries that the log does not know of, in their order."""
    left = sorted(
        (line, index, number)
        for index, call in enumerate(calls)
        for number, line in enumerate(call.pieces)
        if number >= told.pieces.get((call.lane, call.position), 0)
    )
    for index, group in groupby(left, key=lambda one: one[1]):
        call, numbers = calls[index], [number for _, _, number in group]
        for start in range(0, len(numbers), LONGEST_CHUNK_RUN):
            run = numbers[start : start + LONGEST_CHUNK_RUN]
            data = chunk_delivery(call.position, run[0], len(run))
            yield Draft(type="nondeterministic", data=data, ts=call.ts, lane=call.lane)
