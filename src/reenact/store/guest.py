"""A process that writes to a capture which another one has started and will close."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from reenact.errors import SinkError
from reenact.format.event import Draft
from reenact.format.manifest import Flag, Manifest, Seed
from reenact.policy.redaction import Mark
from reenact.store.directory import join_directory
from reenact.store.journal import Note
from reenact.store.sink import Options, Status, Writer, watch_forks

__all__ = ["GuestSink"]


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
