"""The sink protocol for writers of recordings, and the part that all sinks share."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from reenact.errors import SinkError
from reenact.format.event import Draft, Prefix
from reenact.format.manifest import Flag, Manifest, Seed
from reenact.policy.redaction.redactor import Mark, Redactor
from reenact.store.blobs import Blobs
from reenact.store.files import is_open_as, sync_file
from reenact.store.integrity import LogTotals
from reenact.store.log import Durability, Log, Syncer
from reenact.store.payload_encoder import BLOB_THRESHOLD, PayloadEncoder, Prepared, prepare
from reenact.store.seal import Seal, SealedValues
from reenact.store.stream_journal import Journal, Note, journal_path
from reenact.store.warning import Warn, print_warning

__all__ = ["CopySink", "Options", "Sink", "Writer", "values_to_seal"]

Status = Literal["ok", "error", "recovered"]


class Sink(Protocol):
    """Target of a recording. Thread-safe; one sink writes one recording."""

    def start(self, seed: Seed) -> None:
        """Claim the place. Everything that can be refused is refused here, before a program runs."""

    def append(self, event: Draft) -> int:
        """Redact, write, and return the seq given. When this returns, a kill loses nothing.

        A place that stops being writable does not stop the program: the first failure warns once,
        and from then on nothing is written and 0 is returned. Raises :class:`ValueRefused` for
        data that JSON cannot hold.
        """

    def begin(self, event: Draft, position: int) -> Note | None:
        """Open a note for a call at ``position`` of its lane whose result arrives in pieces.

        ``event`` contains the known part of the event that is appended when the call completes.
        Data that is added to the note survives a kill. Returns None if the sink has no journal.
        """

    def flag(self, flag: Flag) -> None:
        """The manifest is to say ``flag``. Nothing happens in a forked child."""

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        """Close the recording; its manifest comes last. Calling it again returns the same."""

    def leave(self) -> None:
        """In a process that was forked meanwhile: this process has no more to add."""

    def discard(self) -> None:
        """Give the recording up: what this sink has written is removed and its lock is free.

        A recording that was to be replaced stays as it was. Nothing happens before the start,
        after finalising or the second time; a forked child only leaves. Raises
        :class:`WriterBusy` while other processes write to the same capture, and
        :class:`SinkUnwritable` when something cannot be removed.
        """


class CopySink(Sink, Protocol):
    """A sink that also takes events out of another recording."""

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        """Append an event that has been redacted before; otherwise as :meth:`append`.

        ``received`` are the values that were taken out of it then. They are sealed with it, if
        the sink seals, and written nowhere else.
        """


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and dependencies of a sink. Tests pass fakes here."""

    redactor: Redactor = msgspec.field(default_factory=Redactor)
    seal: Seal | None = None
    durability: Durability = "interval"
    blob_threshold: int = BLOB_THRESHOLD
    deltas: bool = True
    shows: bool = False
    """Is JSON in the body of an answer stored as JSON? For tapes."""
    warn: Warn = print_warning


def values_to_seal(prepared: Prepared, received: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Return the values to seal with an event that was redacted before, and possibly again now.

    If both redactions changed the same leaf, the earlier mark has its complete value.
    """
    # nothing of the event is written, so a sealed value would have no location
    if prepared.warning:
        return ()
    known = {mark.path for mark in received}
    return (*received, *(mark for mark in prepared.received if mark.path not in known))


class Writer:
    """One process's part of a recording: a log, blobs, sealed values and a journal.

    Encoding and redaction happen outside the lock. Numbering, the delta against earlier events, the
    write and the running checksums happen inside the lock, as one step.
    """

    def __init__(
        self,
        log: Log,
        prefix: Prefix,
        blobs: Blobs,
        sealed: SealedValues | None,
        options: Options,
        rescan: Callable[[], LogTotals],
    ) -> None:
        self.failure: str | None = None
        self.untidy = False
        """May blobs have been written for an event that was not?"""
        self.flags: set[Flag] = set()
        """Flags of the manifest that are not derived from the checksums."""
        self._log = log
        self._sums = LogTotals(tally=log.tally)
        self._prefix = prefix
        self._rescan = rescan
        self._options = options
        self._sealed = sealed
        self._packer = PayloadEncoder(
            blobs,
            threshold=options.blob_threshold,
            deltas=options.deltas,
            sync_blobs=options.durability == "event",
            shows=options.shows,
        )
        self._lock = threading.Lock()
        self._syncer = Syncer(log.fd, self._packer.new_files)
        self._journal = Journal(
            journal_path(log.path), options.redactor, self._next_seq, self._journal_grew
        )
        self._torn = False
        self._closed = False

    def append(self, event: Draft, received: tuple[Mark, ...] = ()) -> int:
        prepared = prepare(event, self._options.redactor)
        if prepared.warning:
            self._options.warn(prepared.warning)
        payload = prepared.payload
        marks = values_to_seal(prepared, received) if received else prepared.received
        # The content hash does not take it where a part of the payload is left out.
        digest = b"" if prepared.varies and not marks else hashlib.sha256(payload).digest()
        with self._lock:
            if self._closed:
                raise SinkError("this recording is closed", hint="append before finalize")
            if self.failure is not None:
                return 0
            if self._torn:
                self._mend()
            sums = self._sums
            seq = sums.events + 1
            # Anything that leaves this block without clearing the mark (an exception thrown by a
            # signal handler between two instructions) leaves the sums unreliable.
            self._torn = True
            try:
                head = self._prefix.head(seq, event)  # refuses a bad envelope before any effect
                if self._sealed is not None and marks:
                    self._sealed.add(seq, event, digest, marks)
                data = payload
                if len(payload) >= self._packer.smallest:
                    data = self._packer.pack(seq, event, payload, digest)
                self._log.append(b"%b%b}\n" % (head, data))
                if self._options.durability == "event":
                    os.fdatasync(self._log.fd)
            except OSError as error:  # the sums are made again from the file, when it is closed
                self._fail(f"{error.strerror or error} (errno {error.errno})")
                return 0
            except Exception:
                self._forget()
                self._torn = False
                raise
            sums.add(event.lane, event.type, payload, digest, varies=prepared.varies)
            self._torn = False
        if self._options.durability == "interval":
            self._syncer.touch()
        return seq

    def begin(self, event: Draft, position: int) -> Note | None:
        """Open a note for a call in progress."""
        return None if self.failure is not None else self._journal.begin(event, position)

    def _next_seq(self) -> int:
        return self._sums.events + 1

    def _journal_grew(self, path: Path) -> None:
        durability = self._options.durability
        if durability == "event":
            sync_file(path)
        elif durability == "interval":
            files = self._packer.new_files
            if path not in files:
                files.append(path)
            self._syncer.touch()

    def _forget(self) -> None:
        """The event that was on its way is not there: refer to nothing of it."""
        self.untidy = True
        self._packer.forget()

    def _fail(self, reason: str) -> None:
        self.untidy = True
        self.failure = f"recording stopped after event {self._sums.events}: {reason}"
        self._options.warn(
            f"{self.failure}; the program continues, but the recording ends here with the status error"
        )

    def _mend(self) -> None:
        """After an interrupted append: believe the file, not our sums."""
        self._log.cut_tail()
        self._sums = self._rescan()
        self._log.tally = self._sums.tally
        self._forget()
        self._torn = False

    def outcome(self, status: Status, error: str | None) -> tuple[Status, str | None]:
        """Return the final status and error: the sink's own failure has priority, and secrets are
        redacted.
        """
        if self.failure:
            return "error", self.failure
        return status, None if error is None else self._options.redactor.text(error)

    def sums(self) -> LogTotals:
        """The sums over everything written; call it when the writer is closed."""
        if self._torn:
            self._mend()
        self._sums.flags |= self.flags
        if self._packer.used_deltas:
            self._sums.flags.add(Flag.DELTAS)
        if self._sealed is not None and self._sealed.count:
            self._sums.flags.add(Flag.SEALED)
            self._sums.sealed_key = self._sealed.key_id
        return self._sums

    def stop(self) -> bool:
        """Reject further appends and stop all use of the file. Return False if already stopped."""
        with self._lock:
            if self._closed:
                return False
            self._closed = True
        self._syncer.close()
        self._journal.remove()
        return True

    def close(self) -> None:
        """No more appends; everything written is durable (unless durability is ``none``)."""
        if self.stop() and self._options.durability != "none":
            self._syncer.commit()
            if self._sealed is not None:
                self._sealed.sync()

    def owns(self, path: Path) -> bool:
        """Is ``path`` the log of this writer, which still holds the lock on it?"""
        return is_open_as(path, self._log.fd)

    def release(self) -> None:
        """Close the files, and with them the lock."""
        self._journal.release()
        self._log.close()
        if self._sealed is not None:
            self._sealed.close()


_forking: weakref.WeakSet[Any] = weakref.WeakSet()
_hooked = False


def watch_forks(sink: Any) -> None:
    """Call ``sink.after_fork()`` in every child that is forked while ``sink`` is alive."""
    global _hooked
    if not _hooked:
        _hooked = True
        os.register_at_fork(after_in_child=_tell_forked)
    _forking.add(sink)


def _tell_forked() -> None:
    for sink in list(_forking):
        sink.after_fork()
