"""Writing a capture directory: ``manifest.json``, ``events.jsonl``, ``blobs/``, ``sealed``.

While it is being written there is ``open.json`` instead of a manifest: the seed, and the lock of
the writing process. The first process writes ``events.jsonl`` in its final form; every other
process of the capture writes ``segments/<name>.jsonl``, and finalising merges them. A directory
with a valid manifest is complete.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from reenact._system import Clock, monotonic, pause
from reenact.errors import RecordingExists, SinkError, SinkUnwritable, UsageError, WriterBusy
from reenact.format.event import Draft
from reenact.format.manifest import Flag, Manifest, Seed
from reenact.policy.redaction.redactor import Mark
from reenact.store.blobs import Blobs
from reenact.store.files import (
    BLOBS,
    CLOSING,
    EVENTS,
    MANIFEST,
    OPEN,
    SEGMENTS,
    close_descriptor,
    create_locked,
    drop_capture,
    drop_empty_segments,
    drop_marks,
    folder_lock,
    hold_descriptor,
    is_locked,
    is_open_as,
    looks_recorded,
    make_private_folder,
    not_removed,
    remove_tree,
    replace_file,
    segment_files,
    unwritable,
    write_whole,
)
from reenact.store.integrity import blob_totals, close_manifest, encode_manifest, set_orphans_aside
from reenact.store.sinks.base import Options, Status, Writer, watch_forks
from reenact.store.sinks.segments import OpenRecording, SegmentSink, merge, new_writer, read_open
from reenact.store.stream_journal import Note, recover_journal

__all__ = ["DirectorySink", "finish_swap", "swap"]


class DirectorySink:
    """Writes a capture directory. See :class:`reenact.store.sinks.base.Sink` for the contract.

    With ``replace`` an existing recording is replaced at the end, in one step: until then, and if
    the new one cannot be written to its end, the old one stays as it is.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        options: Options | None = None,
        replace: bool = False,
        patience: float = 10.0,
    ) -> None:
        self.path = Path(path)
        self._clock = clock
        self._options = options or Options()
        self._replace = replace
        self._patience = patience
        self._folder = self.path
        self._writer: Writer | None = None
        self._seed: Seed | None = None
        self._lock_fd = -1
        self._made = False
        self._manifest: Manifest | None = None
        self._discarded = False
        self._guest: SegmentSink | None = None
        """In a forked child, which joins what its parent writes."""

    @property
    def folder(self) -> Path:
        """Path of the recording until it is finalised."""
        return self._folder

    def start(self, seed: Seed) -> None:
        if self._writer is not None:
            raise UsageError("this sink has been started already")
        self._seed = seed
        try:
            self._folder = self._claim_place()
            self._open(seed)
        except (OSError, ValueError) as error:
            self._undo_open()
            raise unwritable(self.path, error) from None
        watch_forks(self)

    def _undo_open(self) -> None:
        """Leave nothing behind at a place that turned out not to be writable."""
        if self._lock_fd >= 0:
            close_descriptor(self._lock_fd)
            self._lock_fd = -1
            for name in (EVENTS, OPEN):
                (self._folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    def _claim_place(self) -> Path:
        if not self.path.exists():
            return self.path
        if not self.path.is_dir():
            raise RecordingExists(f"{self.path} is a file, not a capture directory")
        if not any(self.path.iterdir()):
            return self.path
        if is_locked(self.path / OPEN):
            raise _busy(self.path)
        if not self._replace:
            raise _exists(self.path)
        if not looks_recorded(self.path):
            raise RecordingExists(
                f"{self.path} contains files that are not a recording, so it is not replaced",
                hint="choose an empty or new directory",
            )
        beside = self.path.with_name(f"{self.path.name}.new")
        if is_locked(beside / OPEN):
            raise _busy(beside)
        remove_tree(beside)
        return beside

    def _open(self, seed: Seed) -> None:
        folder = self._folder
        self._made = not folder.exists()
        make_private_folder(folder)
        try:
            fd = create_locked(folder / OPEN)
        except FileExistsError:
            raise _busy(folder) from None
        self._lock_fd = hold_descriptor(fd)
        begun = OpenRecording(seed, os.getpid(), self._clock)
        write_whole(fd, msgspec.json.encode(begun) + b"\n", 0)
        self._writer = new_writer(folder / EVENTS, folder, seed, self._options)

    @property
    def append(self) -> Callable[[Draft], int]:
        """Append an event: in a forked child to its own segment, else to the log.

        A property saves a frame in the path of every recorded call. Look it up for each event: after
        a fork it is another method.
        """
        return self._own().append if self._guest is None else self._guest.append

    def append_copy(self, event: Draft, received: tuple[Mark, ...]) -> int:
        if self._guest is not None:
            return self._guest.append_copy(event, received)
        return self._own().append(event, received)

    def begin(self, event: Draft, position: int) -> Note | None:
        if self._guest is not None:
            return self._guest.begin(event, position)
        return self._own().begin(event, position)

    def _own(self) -> Writer:
        if self._writer is None:
            raise UsageError("start the sink before appending to it")
        return self._writer

    def flag(self, flag: Flag) -> None:
        if self._writer is not None and self._guest is None:
            self._writer.flags.add(flag)

    def after_fork(self) -> None:
        """In a forked child: leave the parent's files alone, write a segment of our own."""
        if self._writer is None or self._manifest is not None or self._discarded:
            return
        assert self._seed is not None
        self._guest = SegmentSink(self._folder, self._options)
        self._guest.start(self._seed)
        self._writer.release()
        self._writer = None
        if self._lock_fd >= 0:
            close_descriptor(self._lock_fd)
            self._lock_fd = -1

    def finalize(self, status: Status = "ok", error: str | None = None) -> Manifest:
        if self._manifest is not None:
            return self._manifest
        if self._guest is not None:
            self.leave()
            raise SinkError("a forked child does not finalise its parent's recording")
        if self._discarded:
            raise SinkError("this recording was given up", hint="start a new one")
        if self._writer is None or self._seed is None:
            raise UsageError("start the sink before finalising it")
        self._writer.close()
        status, error = self._writer.outcome(status, error)
        try:
            if not self._close_alone(status, error):
                self._await_segments()
                self._manifest = self._close(self._writer, self._seed, status, error)
        except OSError as problem:
            raise unwritable(self.path, problem) from None
        assert self._manifest is not None
        return self._manifest

    def _close_alone(self, status: Status, error: str | None) -> bool:
        """The usual case: no other process has joined, and while the lock is held none can. False
        when there may be one."""
        assert self._writer is not None
        assert self._seed is not None
        with folder_lock(self._folder, shared=False):
            if os.path.lexists(self._folder / SEGMENTS):
                return False
            self._manifest = self._close(self._writer, self._seed, status, error)
        return True

    def leave(self) -> None:
        """In a forked child: this process has no more to add."""
        if self._guest is not None:
            self._guest.leave()

    def discard(self) -> None:
        if self._guest is not None:
            self.leave()
        elif self._lock_fd >= 0 and self._manifest is None:
            self._give_up()

    def _give_up(self) -> None:
        if self._writer is not None:
            self._writer.stop()
        unfinished = not (self._folder / MANIFEST).exists()
        ours = unfinished and is_open_as(self._folder / OPEN, self._lock_fd)
        if ours:
            # A process that still writes would make the folder again, for its next blob.
            self._await_segments()
        self._discarded = True
        try:
            if ours:
                drop_capture(self._folder, made=self._made)
        except OSError as error:
            raise not_removed(self._folder, error) from None
        finally:
            if self._writer is not None:
                self._writer.release()
            close_descriptor(self._lock_fd)
            self._lock_fd = -1

    def _await_segments(self) -> None:
        """Wait for other processes of this capture that are still writing.

        No process can join after the mark has been set. The lock excludes processes between
        checking for the mark and creating a segment.
        """
        try:
            with folder_lock(self._folder, shared=False):
                (self._folder / CLOSING).touch()
        except OSError:
            pass  # no room: then there is none for another segment, either
        deadline = monotonic() + self._patience
        while busy := [path for path in segment_files(self._folder) if is_locked(path)]:
            if monotonic() > deadline:
                (self._folder / CLOSING).unlink(missing_ok=True)
                raise WriterBusy(
                    f"{len(busy)} other process(es) still write to {self._folder}, "
                    f"e.g. {SEGMENTS}/{busy[0].name}",
                    hint=f"when they have ended: reenact recover {self._folder}",
                )
            pause(0.02)

    def _close(self, writer: Writer, seed: Seed, status: Status, error: str | None) -> Manifest:
        segments = segment_files(self._folder)
        for log in segments:
            recover_journal(log, self._folder, seed)
        sums = merge(self._folder) if segments else writer.sums()
        sums.flags |= writer.flags
        drop_empty_segments(self._folder)
        if writer.untidy:
            set_orphans_aside(self._folder)
        manifest = close_manifest(
            seed,
            sums,
            blobs=blob_totals(Blobs(self._folder / BLOBS)),
            completed_at=self._clock(),
            status=status,
            error=error,
        )
        sync = self._options.durability != "none"
        replace_file(self._folder / MANIFEST, encode_manifest(manifest), sync=sync)
        drop_marks(self._folder)
        writer.release()
        close_descriptor(self._lock_fd)
        self._lock_fd = -1
        if self._folder != self.path:
            self._take_place(writer)
        return manifest

    def _take_place(self, writer: Writer) -> None:
        if writer.failure is not None:
            raise SinkUnwritable(
                f"the recording that was to replace {self.path} is not whole: {writer.failure}",
                hint=f"the old recording is unchanged, the new recording is in {self._folder.name}",
            )
        swap(self._folder, self.path)


def _busy(folder: Path) -> WriterBusy:
    begun = read_open(folder)
    who = f"process {begun.pid}" if begun else "another process"
    return WriterBusy(
        f"{folder} is being written by {who}",
        hint="wait for it to end, or record to another directory",
    )


def _exists(path: Path) -> RecordingExists:
    if (path / MANIFEST).exists():
        return RecordingExists(
            f"{path} already holds a recording", hint="choose another place, or say overwrite"
        )
    if looks_recorded(path):
        return RecordingExists(
            f"{path} holds a recording that was never finished",
            hint=f"reenact recover {path}, or say overwrite to give it up",
        )
    return RecordingExists(f"{path} is not empty", hint="choose an empty or new directory")


def finish_swap(path: Path) -> None:
    """The last step of a replacement that was killed in the middle: the new one takes the place."""
    new, aside = path.with_name(f"{path.name}.new"), path.with_name(f"{path.name}.old")
    if (new / MANIFEST).exists() and aside.is_dir():
        new.rename(path)
        remove_tree(aside)


def swap(new: Path, old: Path) -> None:
    """Put ``new`` where ``old`` is. A kill between the two renames leaves both, whole, and
    ``recover`` takes the last step."""
    aside = old.with_name(f"{old.name}.old")
    remove_tree(aside)
    old.rename(aside)
    new.rename(old)
    remove_tree(aside)
