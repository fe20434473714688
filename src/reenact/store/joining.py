"""Writing to a capture: who starts it, and who joins it while it is being written."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path

import msgspec

from reenact._system import Clock
from reenact.errors import SinkError
from reenact.format.building import build
from reenact.format.event import Draft, Prefix
from reenact.format.manifest import Flag, Manifest, Seed
from reenact.policy.redaction import Mark
from reenact.store.blobs import Blobs
from reenact.store.file_access import make_private_folder, read_regular
from reenact.store.files import create_claimed, holding, unwritable
from reenact.store.journal import Note
from reenact.store.layout import BLOBS, OPEN, SEALED, SEGMENTS, is_closing
from reenact.store.lines import Lines
from reenact.store.log import Log
from reenact.store.sealed import SealedValues
from reenact.store.sink import Options, Status, Writer, watch_forks
from reenact.store.sums import Sums, scan

__all__ = ["GuestSink", "Open", "join_directory", "new_writer", "read_open"]


class Open(msgspec.Struct, frozen=True, rename="camel"):
    """What ``open.json`` holds: enough to recover, and for other processes to join."""

    seed: Seed
    pid: int
    clock: Clock


build(Open)


def new_writer(log: Path, folder: Path, seed: Seed, options: Options) -> Writer:
    """The one who writes ``log`` of the capture in ``folder``, and holds its lock."""
    fd = create_claimed(log)
    sealed = None
    if options.seal is not None:
        name = SEALED if log.parent == folder else f"{SEGMENTS}/{log.stem}.{SEALED}"
        sealed = SealedValues(folder / name, options.seal, seed.capture_id)
    blobs = Blobs(folder / BLOBS)
    return Writer(
        Log(fd, log),
        Prefix(seed.capture_id, seed.run_id),
        blobs,
        sealed,
        options,
        lambda: _scan(log, blobs),
    )


def _scan(log: Path, blobs: Blobs) -> Sums:
    lines = Lines(log, blobs)
    try:
        return scan(lines)
    finally:
        lines.close()


def join_directory(folder: Path, name: str, options: Options) -> Writer:
    """Another process's end of a capture that is being written: its own segment and lock.

    ``name`` is a wish (a lane, a pid); a number is added when it is taken.
    """
    begun = read_open(folder)
    try:
        if begun is not None:
            with holding(folder, shared=True):
                if not is_closing(folder):
                    return _new_segment(folder, name, begun.seed, options)
    except OSError as error:
        raise unwritable(folder / SEGMENTS, error) from None
    raise SinkError(
        f"{folder} is not being recorded",
        hint="join a capture between its start and its finalisation",
    )


def _new_segment(folder: Path, name: str, seed: Seed, options: Options) -> Writer:
    segments = folder / SEGMENTS
    make_private_folder(segments)
    for number in range(1_000_000):
        wish = f"{name}-{number}" if number else name
        with contextlib.suppress(FileExistsError):
            return new_writer(segments / f"{wish}.jsonl", folder, seed, options)
    raise SinkError(f"no free segment name for {name} in {segments}")


def read_open(folder: Path) -> Open | None:
    """The contents of ``open.json``, or None when it is missing or was never written whole."""
    try:
        return msgspec.json.decode(read_regular(folder / OPEN), type=Open)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


class GuestSink:
    """Joins ``folder`` with its first event; see :class:`reenact.store.sink.Sink`.

    A process that has nothing to say leaves no trace. ``flags`` are for whoever closes the
    capture, who cannot see them in the log.
    """

    def __init__(self, folder: Path, options: Options) -> None:
        self.flags: set[Flag] = set()
        self._folder = folder
        self._options = options
        self._writer: Writer | None = None
        self._shut_out = False
        self._joining = threading.Lock()

    def start(self, seed: Seed) -> None:
        watch_forks(self)

    def append(self, event: Draft) -> int:
        writer = self._writer or self._join()
        return 0 if writer is None else writer.append(event)

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        writer = self._writer or self._join()
        return 0 if writer is None else writer.append(event, received)

    def begin(self, event: Draft, position: int) -> Note | None:
        writer = self._writer or self._join()
        return None if writer is None else writer.begin(event, position)

    def _join(self) -> Writer | None:
        """None when there is no more to join, which must not stop the program."""
        with self._joining:
            if self._writer is None and not self._shut_out:
                try:
                    self._writer = join_directory(self._folder, f"p{os.getpid()}", self._options)
                except SinkError as error:
                    self._shut_out = True
                    self._options.warn(
                        f"{error.message}; the program goes on, what this process does is not "
                        "recorded"
                    )
            return self._writer

    def flag(self, flag: Flag) -> None:
        self.flags.add(flag)

    def after_fork(self) -> None:
        """In a forked child: the segment is our parent's, ours is still to come."""
        self._joining = threading.Lock()
        if self._writer is not None:
            self._writer.release()
            self._writer = None

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        self.leave()
        raise SinkError("a process that joined a capture does not close it")

    def leave(self) -> None:
        """This process has no more to add."""
        if self._writer is not None:
            self._writer.close()
            self._writer.release()
            self._writer = None

    def discard(self) -> None:
        self.leave()
