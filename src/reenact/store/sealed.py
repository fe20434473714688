"""The ``sealed`` file: redacted values that a replay needs, encrypted, one line each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.canonical import decode, digest_bytes, exact, plain
from reenact.format.event import Data, Draft, Event
from reenact.format.paths import lookup, parse
from reenact.store import descriptors
from reenact.store.log import whole_lines, write_whole

if TYPE_CHECKING:  # reading a recording loads neither redaction nor keys
    from reenact.policy.redaction import Mark
    from reenact.store.seal import Seal

__all__ = ["Restored", "SealedLine", "SealedValues", "read_sealed", "restore"]


class SealedLine(msgspec.Struct, frozen=True):
    """``key`` is the id of the key, not the key. The box is bound to its capture, its path and the
    lane, time and payload of the event it was taken out of, so it fits no other."""

    seq: int
    path: str
    key: str
    nonce: str
    box: str


_decode_line = msgspec.json.Decoder(SealedLine)


class SealedValues:
    """The writer's end. Created only when there is a first value to seal."""

    def __init__(self, path: Path, seal: Seal, capture_id: str) -> None:
        self._path = path
        self._seal = seal
        self._capture_id = capture_id
        self._fd = -1
        self.count = 0

    @property
    def key_id(self) -> str:
        return self._seal.key_id

    def add(self, seq: int, event: Draft, digest: bytes, marks: tuple[Mark, ...]) -> None:
        """Seal what was taken out of ``event``, whose redacted payload has ``digest``."""
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._fd = descriptors.hold(os.open(self._path, flags, 0o600))
        of = (self._capture_id, event.lane, event.ts, f"sha256:{digest.hex()}")
        lines = b"".join(self._line(seq, of, mark) for mark in marks)
        write_whole(self._fd, lines, os.fstat(self._fd).st_size)
        self.count += len(marks)

    def _line(self, seq: int, of: _Of, mark: Mark) -> bytes:
        box = self._seal.close(exact([mark.original]), _context(of, mark.path))
        return msgspec.json.encode(SealedLine(seq, mark.path, self._seal.key_id, **box)) + b"\n"

    def sync(self) -> None:
        if self._fd >= 0:
            os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            descriptors.close(self._fd)
            self._fd = -1


_Of = tuple[str, str, int, str]
"""Capture, lane, time stamp, digest of the redacted payload: what a merge leaves of an event."""


def _context(of: _Of, path: str) -> bytes:
    return exact([*of, path])


def read_sealed(path: Path, *, skip_damage: bool = False) -> Iterator[SealedLine]:
    """The lines of a sealed file; a missing file has none.

    With ``skip_damage`` what cannot be read is left out: it could not be opened, either.
    """
    if not path.exists():
        return
    for number, line in enumerate(whole_lines(path), 1):
        try:
            yield _decode_line.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if skip_damage:
                continue
            raise RecordingDamaged(
                f"{path.name} line {number}: {error}", place=f"{path.name} line {number}"
            ) from None


class Restored(msgspec.Struct, frozen=True):
    """The data of an event with its sealed values back in place.

    ``absent`` are the paths where the placeholder had to stay, because the key (or the sealed
    file) is not at hand.
    """

    data: Data
    absent: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Restored(absent={self.absent!r})"


def restore(event: Event, lines: Iterable[SealedLine], seal: Seal | None) -> Restored:
    """Put back what redaction took out of what the program received.

    Raises :class:`RecordingDamaged` when a box does not belong to this event.
    """
    marked = event.data.get("redacted")
    if not isinstance(marked, list):
        return Restored(event.data)
    boxes = {line.path: line for line in lines if seal is not None and line.key == seal.key_id}
    payload = event.payload
    of = (event.capture_id, event.lane, event.ts, digest_bytes(payload))
    data: Data = plain(decode(payload))  # a copy: the event keeps its placeholders
    absent = []
    for path in marked:
        if seal is not None and path in boxes:
            _put(data, path, _unseal(boxes[path], seal, of))
        else:
            absent.append(path)
    return Restored(data, tuple(absent))


def _put(data: Data, text: str, value: Any) -> None:
    path = parse(text)
    if path:
        owner = lookup(data, path[:-1])
        owner[path[-1]] = value
    else:
        data.clear()
        data.update(value)


def _unseal(line: SealedLine, seal: Seal, of: _Of) -> Any:
    """The value that was taken out. Raises :class:`RecordingDamaged` when the box is not its own."""
    opened = seal.open({"nonce": line.nonce, "box": line.box}, _context(of, line.path))
    try:
        [value] = plain(decode(opened))
    except (ValueRefused, ValueError):
        raise RecordingDamaged(
            f"the sealed value of event {line.seq} at {line.path} is not a value",
            place=f"sealed value of event {line.seq}",
        ) from None
    return value
