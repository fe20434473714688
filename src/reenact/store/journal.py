"""Calls whose answer is still coming, kept beside the log so that a kill does not take them.

A call that is one event is written when it completes. Until then its pieces are lines of a journal,
``<log>.streams``, each redacted and written before the program sees it. A call that completes is
whole in the log, and a journal that has grown is emptied when no call is open; what a kill leaves in
it, and the log does not know, becomes an event of the log when the recording is recovered.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact.format.canonical import stored
from reenact.format.event import Data, Draft
from reenact.policy.redaction import Redactor
from reenact.store import descriptors
from reenact.store.file_access import PRIVATE_FILE, write_private
from reenact.store.log import whole_lines, write_whole
from reenact.store.redact import prepare

__all__ = ["Journal", "Note", "journal_path"]

_SMALL = 64 * 1024
"""Bytes below which a journal is not emptied: a file that is being made durable is not cut off before
that is done, and a program would wait for the first piece of its answer all that time."""
_LARGE = 4 * 1024 * 1024


def journal_path(log: Path) -> Path:
    """Where the journal of ``log`` is, while there is one."""
    return log.with_name(f"{log.name}.streams")


class Journal:
    """The journal of one writer. Thread-safe; made when it is first needed. Between the end of a
    note and the append that completes it, nobody begins another.

    ``next_seq()`` is the seq that the next event of the log gets; ``touch(path)`` is told after
    each write. Beyond ``small`` bytes it is emptied when no call is open; beyond ``large`` it is
    made smaller when most of it is of no use any more.
    Where nothing can be written nothing is: the log says so with its next event.
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
            # What has ended is in the log by now.
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
        """Note ``number`` goes on with the data of ``event``."""
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
                self._fd = descriptors.hold(os.open(self.path, flags, PRIVATE_FILE))
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
        descriptors.close(self._fd)
        self._fd, self._size = descriptors.hold(fd), sum(map(len, kept))

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
            descriptors.close(self._fd)
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
