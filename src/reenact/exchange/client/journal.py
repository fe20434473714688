"""What the app has been told to do, and what became of it: so that nothing is done twice.

Lines of JSON that are only added to, each on disk before what it says happens. A kill can tear the
last one, which then has not happened. What nobody will ask for any more is left out when the file
is written anew.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Literal

import msgspec

from reenact.exchange.client.limits import CLOCKS_DIFFER
from reenact.store.files import replace_file
from reenact.store.log.writer import whole_lines, write_whole

__all__ = ["EndState", "Journal", "KnownReplay", "ReplayEnd"]

EndState = Literal["completed", "failed", "refused", "cancelled"]

_KEPT_FOR = 24 * 60 * 60 * 1_000
"""Milliseconds for which the end of a replay is remembered after its command has expired."""
_MANY = 4_096
"""Lines after which it is written anew."""


class ReplayEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a replay ended here. ``completed`` is never said: its exchange is sent."""

    state: EndState
    code: str = ""
    message: str = ""


class KnownReplay(msgspec.Struct, frozen=True, omit_defaults=True):
    """A replay that the app was told of. ``done`` is None until it has ended; ``said`` once the
    server knows it."""

    command: str
    until: int
    done: ReplayEnd | None = None
    said: bool = False


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """``nonce`` with ``command`` and ``until``: was used. ``replay`` with ``known``: is so now."""

    nonce: str = ""
    command: str = ""
    until: int = 0
    replay: str = ""
    known: KnownReplay | None = None


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


class Journal:
    """Thread-safe. Every method that changes it raises OSError, and then it has not changed.

    ``now`` are milliseconds since the epoch.
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
        """Read what is there, and leave out what is over."""
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
        """In a forked child, where the lock may be held for ever: leave it to the parent."""
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
        """The command that came with ``nonce``, if any has."""
        with self._lock:
            found = self._nonces.get(nonce)
            return None if found is None else found[0]

    def find(self, replay: str) -> KnownReplay | None:
        """What is known of ``replay``."""
        with self._lock:
            return self._replays.get(replay)

    def unended(self) -> tuple[str, ...]:
        """The replays that were accepted and have not ended."""
        with self._lock:
            return tuple(name for name, known in self._replays.items() if known.done is None)

    def unsaid(self) -> tuple[tuple[str, ReplayEnd], ...]:
        """The ends of which the server may not know."""
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
        """From now on ``nonce`` is used and ``replay`` is known, both until ``until`` at least."""
        known = KnownReplay(command, until, done)
        self._add(_Line(nonce=nonce, command=command, until=until, replay=replay, known=known), now)

    def use(self, nonce: str, command: str, until: int, now: int) -> None:
        """From now on ``nonce`` is used."""
        self._add(_Line(nonce=nonce, command=command, until=until), now)

    def end(self, replay: str, done: ReplayEnd, now: int) -> None:
        """``replay`` has ended. What has ended before stays as it was."""
        known = self.find(replay)
        if known is not None and known.done is None:
            said = done.state == "completed"
            changed = msgspec.structs.replace(known, done=done, said=said)
            self._add(_Line(replay=replay, known=changed), now)

    def say(self, replay: str, now: int) -> None:
        """The server knows how ``replay`` ended."""
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
