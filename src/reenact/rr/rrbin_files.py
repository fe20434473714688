"""Opening X07 cassettes (``*.rrbin``) in place: reading, adding to and replacing the file itself."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reenact._system import start_clock
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings
from reenact.errors import (
    RecordingDamaged,
    RecordingExists,
    RecordingMissing,
    RrError,
    SinkUnwritable,
    WriterBusy,
)
from reenact.format.event import Draft, parse
from reenact.policy.redaction.redactor import Redactor
from reenact.rr import entries
from reenact.rr.cassette import entry_data
from reenact.rr.entries import EVENT, OVER_CASSETTE_BYTES
from reenact.rr.rrbin import decode, encode
from reenact.store.files import create_locked, is_locked, sync_file, unwritable
from reenact.store.payload_encoder import prepare
from reenact.store.reader import part_path, unreadable
from reenact.store.sinks.base import Options, Status
from reenact.store.sinks.memory import MemorySink, MemorySource, memory_seed
from reenact.store.warning import print_warning

__all__ = ["RrbinSink", "open_rrbin"]

_LARGEST = 1 << 30
_READS = ("replay", "record_missing")


def open_rrbin(
    settings: Settings, path: Path, limit: int | None
) -> tuple[SessionResources, RrbinSink | None]:
    """Open the X07 cassette at ``path`` in the mode of ``settings``.

    Entries are served as they are in the file. New entries are redacted first. A file of more than
    ``limit`` bytes is not read. Raises :class:`RecordingError`, :class:`SinkError` and
    :class:`RrError` 2003.
    """
    parts = SessionResources(start_clock(), settings.redactor())
    if settings.mode == "off":
        return parts, None
    exists = path.exists()
    if settings.mode == "replay" and not exists:
        raise RecordingMissing(
            f"no X07 cassette found at {path}",
            hint=(
                "copy the file there, or record it with the mode record (1); "
                f"a tape that reenact import made of it is read as {path.with_suffix('.jsonl').name}"
            ),
        )
    content = b""
    if exists and (settings.mode in _READS or settings.append):
        content = _content(path, limit)
        parts.source = _source(content, path)
    if settings.mode != "replay":
        adds = settings.mode != "record" or settings.append
        sink = RrbinSink(
            path, parts.redactor, content, replace=adds or settings.overwrite, adds=adds
        )
        return parts, sink
    return parts, None


def _content(path: Path, limit: int | None) -> bytes:
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            raise RecordingDamaged(f"{path} is not a regular file", place=f"file {path.name}")
        if state.st_size > _LARGEST:
            raise RecordingDamaged(
                f"{path} has more than {_LARGEST >> 20} MiB", place=f"file {path.name}"
            )
        if limit is not None and state.st_size > limit:
            raise RrError(
                OVER_CASSETTE_BYTES,
                f"{path.name}: max_cassette_bytes is {limit}, and the file has {state.st_size}",
                hint="raise max_cassette_bytes in the cfg or the policy",
            )
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def _source(content: bytes, path: Path) -> MemorySource:
    """Return the entries as events. Nothing is redacted, because nothing of it is written."""
    sink = MemorySink(options=Options(redactor=Redactor("none")))
    seed = memory_seed()
    sink.start(seed)
    try:
        for entry, _ in decode(content):
            draft = Draft(type=EVENT, data=entry_data(entry), ts=seed.created_at, op=entry.op)
            sink.append(draft)
    except RecordingDamaged as error:
        fields = {name: value for name, value in error.fields.items() if name != "place"}
        raise RecordingDamaged(
            f"{path.name}, {error.message}", place=error.place, hint=error.hint, **fields
        ) from None
    sink.finalize()
    return sink.source()


class RrbinSink:
    """Writer of one X07 cassette. Not thread-safe: the cassette's lock covers it.

    Frames are written to ``NAME.rrbin.part``, after the frames in ``kept``. The file gets its name
    when it is complete. With ``adds`` the file is not touched unless an entry was appended.
    """

    def __init__(
        self, path: Path, redactor: Redactor, kept: bytes, *, replace: bool, adds: bool
    ) -> None:
        """Claim the place. Raises :class:`RecordingExists` and :class:`SinkError`."""
        self.path = path
        self._part = part_path(path)
        self._redactor = redactor
        self._kept = self._frames = sum(1 for _ in decode(kept))
        self._adds = adds
        self._failure: str | None = None
        if path.exists() and not replace:
            raise RecordingExists(f"{path} already exists", hint="choose another name")
        try:
            if self._part.exists():
                self._give_up_part(replace=replace)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd: int | None = create_locked(self._part)
            self._write(kept)
        except FileExistsError:
            raise self._busy() from None
        except OSError as error:
            raise unwritable(path, error) from None

    def _give_up_part(self, *, replace: bool) -> None:
        if is_locked(self._part):
            raise self._busy()
        if not replace:
            raise RecordingExists(
                f"{self._part} is a cassette that was never finished",
                hint=f"rename it to {self.path.name} to use its entries, or delete it",
            )
        self._part.unlink()

    def _busy(self) -> WriterBusy:
        return WriterBusy(
            f"another program is writing {self.path}", hint="wait for the program to end"
        )

    def append(self, event: Draft) -> int:
        """Write one entry, redacted. Return its number, counted from 1, or 0 after a failure."""
        if self._failure is not None:
            return 0
        payload = prepare(event, self._redactor).payload
        frame = encode(entries.read(parse(payload), "the new entry"), self._frames)
        try:
            self._write(frame)
        except OSError as error:
            self._failure = f"{self.path} cannot be written: {error.strerror}"
            print_warning(self._failure)
            return 0
        self._frames += 1
        return self._frames

    def _write(self, content: bytes) -> None:
        assert self._fd is not None
        view = memoryview(content)
        while view:
            view = view[os.write(self._fd, view) :]

    def finalize(self, status: Status = "ok", error: str | None = None) -> None:
        """Give the file its name. Raises :class:`SinkUnwritable` if an entry could not be written."""
        if self._fd is None:
            return
        if self._adds and self._frames == self._kept and self._failure is None:
            self.discard()
            return
        try:
            if self._failure is not None:  # the last frame may be incomplete
                hint = f"make room and record again; {self._part} is incomplete"
                raise SinkUnwritable(self._failure, hint=hint)
            os.fsync(self._fd)
            self._part.replace(self.path)
            sync_file(self.path.parent)
        except OSError as problem:
            raise unwritable(self.path, problem) from None
        finally:
            self.leave()

    def discard(self) -> None:
        """Remove what was written. A cassette that was to be replaced stays unchanged."""
        if self._fd is None:
            return
        self.leave()
        try:
            self._part.unlink(missing_ok=True)
        except OSError as problem:
            raise unwritable(self._part, problem) from None

    def leave(self) -> None:
        """Close the file without giving it its name."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
