"""Journal of received commands and of their results, which prevents double execution.

The file has lines of JSON. A line is on disk before its action takes effect. A kill can truncate
the last line, whose action has not happened. Compaction rewrites the file without expired entries.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Literal

import msgspec

from reenact.exchange.client.limits import CLOCKS_DIFFER
from reenact.store.files import replace_file, write_whole
from reenact.store.log import whole_lines

__all__ = ["EndState", "Journal", "KnownReplay", "ReplayEnd"]

EndState = Literal["completed", "failed", "refused", "cancelled"]

_KEPT_FOR = 24 * 60 * 60 * 1_000
"""Milliseconds for which the end of a replay is stored after its command has expired."""
_MANY = 4_096
"""Number of lines that triggers compaction."""


class ReplayEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """End of a replay. ``completed`` is not reported, because the exchange is sent instead."""

    state: EndState
    code: str = ""
    message: str = ""


class KnownReplay(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replay in the journal. ``done`` is None until it ends. ``said`` is set after the server has
    received the end."""

    command: str
    until: int
    done: ReplayEnd | None = None
    said: bool = False


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """Line of the file: ``nonce`` was used by ``command``, or ``replay`` now has the state
    ``known``."""

    nonce: str = ""
    command: str = ""
    until: int = 0
    replay: str = ""
    known: KnownReplay | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


class Journal:
    """Thread-safe journal. A method that raises OSError has not changed it.

    ``now`` is in milliseconds since the epoch.
    """

    def __init__(self, path: Path, *, many: int = _MANY) -> None:
        self._path = path
        self._many = many
        self._lock = threading.Lock()
        self._fd = -1
        self._size = 0
        self._lines = 0
        self._enough = many
        self._nonces: dict[str, tuple[str, int]] = {}
        self._replays: dict[str, KnownReplay] = {}

    def open(self, now: int) -> None:
        """Read the file and remove expired entries."""
        if self._path.exists():
            for line in whole_lines(self._path):
                self._take(line)
        with self._lock:
            self._write_anew(now)

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def abandon(self) -> None:
        """Close the file in a forked child, without the lock, which can be held forever."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _take(self, line: bytes) -> None:
        try:
            self._apply(_decode(line))
        except msgspec.MsgspecError:
            pass  # a line that the disk has damaged: all others still stand

    def _apply(self, line: _Line) -> None:
        if line.nonce:
            self._nonces[line.nonce] = (line.command, line.until)
        if line.replay and line.known is not None:
            self._replays[line.replay] = line.known

    # Questions

    def used_by(self, nonce: str) -> str | None:
        """Return the command that used ``nonce``, or None."""
        with self._lock:
            found = self._nonces.get(nonce)
            return None if found is None else found[0]

    def find(self, replay: str) -> KnownReplay | None:
        """Return the entry of ``replay``, or None."""
        with self._lock:
            return self._replays.get(replay)

    def unended(self) -> tuple[str, ...]:
        """Return the replays that were accepted and have not ended."""
        with self._lock:
            return tuple(name for name, known in self._replays.items() if known.done is None)

    def unsaid(self) -> tuple[tuple[str, ReplayEnd], ...]:
        """Return the ends that the server has not confirmed."""
        with self._lock:
            return tuple(
                (name, known.done)
                for name, known in self._replays.items()
                if known.done is not None and not known.said
            )

    # Changes

    def accept(
        self,
        replay: str,
        command: str,
        nonce: str,
        until: int,
        now: int,
        done: ReplayEnd | None = None,
    ) -> None:
        """Store that ``nonce`` is used and ``replay`` is known, at least until ``until``."""
        known = KnownReplay(command, until, done)
        self._add(_Line(nonce=nonce, command=command, until=until, replay=replay, known=known), now)

    def use(self, nonce: str, command: str, until: int, now: int) -> None:
        """Store that ``nonce`` is used."""
        self._add(_Line(nonce=nonce, command=command, until=until), now)

    def end(self, replay: str, done: ReplayEnd, now: int) -> None:
        """Store the end of ``replay``. A stored end is not replaced."""
        known = self.find(replay)
        if known is not None and known.done is None:
            said = done.state == "completed"
            changed = msgspec.structs.replace(known, done=done, said=said)
            self._add(_Line(replay=replay, known=changed), now)

    def say(self, replay: str, now: int) -> None:
        """Store that the server has received the end of ``replay``."""
        known = self.find(replay)
        if known is not None and known.done is not None and not known.said:
            self._add(_Line(replay=replay, known=msgspec.structs.replace(known, said=True)), now)

    def _add(self, line: _Line, now: int) -> None:
        with self._lock:
            if self._lines >= self._enough:
                self._write_anew(now)
            data = _encode(line) + b"\n"
            write_whole(self._fd, data, self._size)
            os.fsync(self._fd)
            self._size += len(data)
            self._lines += 1
            self._apply(line)

    def _write_anew(self, now: int) -> None:
        nonces = {
            nonce: found for nonce, found in self._nonces.items() if now <= found[1] + CLOCKS_DIFFER
        }
        replays = {name: known for name, known in self._replays.items() if _matters(known, now)}
        lines = [_Line(nonce=n, command=c, until=u) for n, (c, u) in nonces.items()]
        lines += [_Line(replay=name, known=known) for name, known in replays.items()]
        data = b"".join(_encode(line) + b"\n" for line in lines)
        replace_file(self._path, data)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size, self._lines = fd, len(data), len(lines)
        self._enough = self._many + 2 * len(lines)
        self._nonces, self._replays = nonces, replays


def _matters(known: KnownReplay, now: int) -> bool:
    return known.done is None or not known.said or now <= known.until + _KEPT_FOR
