"""An open cassette: what its mode allows, its counts, and its end."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.engine.session.settings import MODES
from reenact.errors import ReenactError, RrError, SessionClosed, UsageError
from reenact.rr import entries
from reenact.rr.cfg import MATCH_MODES
from reenact.rr.entries import Entry
from reenact.rr.meter import Meter
from reenact.rr.numbers import MISS, MODE_FORBIDS_APPEND, MODE_FORBIDS_NEXT
from reenact.rr.opening import Ready, failed
from reenact.rr.serving import Serving
from reenact.rr.writing import Writing
from reenact.store.sink import watch_forks

__all__ = ["Cassette", "Stats"]

_SERVES: Final = frozenset({"replay", "record_missing"})


class Stats(msgspec.Struct, frozen=True):
    """What ``rr.stats`` says, in its order. Modes are X07 numbers; ``used`` were served."""

    v: int
    mode: int
    match_mode: int
    cassettes: int
    entries: int
    used: int
    bytes: int


class Cassette:
    """Made by :func:`reenact.rr.open`. Thread-safe. A forked child reads on and writes nothing."""

    def __init__(self, ready: Ready) -> None:
        self._ready = ready
        self._meter = Meter(ready.budgets)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._closed = False
        source, sink = ready.parts.source, ready.sink
        self._serving = None if source is None else Serving(ready, source, self._meter)
        self._writing = None if sink is None else Writing(ready, sink, self._meter)
        watch_forks(self)

    def next(self, kind: str | bytes, op: str | bytes, key: str | bytes) -> Entry:
        """See :func:`reenact.rr.next`."""
        with self._lock:
            self._check_open()
            if self._ready.mode not in _SERVES:
                raise self._forbidden(MODE_FORBIDS_NEXT, "serves nothing", "replay, record_missing")
            asked = _asked(kind, op, key)
            self._check_listed(asked[0], asked[1])
            if self._serving is None:
                self._meter.check_key(asked[2], f"next on {self._ready.path.name}")
                raise RrError(
                    MISS,
                    f"{self._ready.path.name} did not exist when it was opened",
                    hint="make the live call and append it",
                )
            return self._serving.next(*asked)

    def append(self, given: Entry | Mapping[str, Any]) -> None:
        """See :func:`reenact.rr.append`."""
        with self._lock:
            self._check_open()
            if self._writing is None:
                raise self._forbidden(
                    MODE_FORBIDS_APPEND, "writes nothing", "record, record_missing, rewrite"
                )
            if self._is_forked():
                raise self._writing.failed("this process was forked from the one that opened it")
            entry = entries.check(given)
            self._check_listed(entry.kind, entry.op)
            self._writing.append(entry)

    def stats(self) -> Stats:
        """See :func:`reenact.rr.stats`."""
        with self._lock:
            self._check_open()
            return Stats(
                v=1,
                mode=MODES.index(self._ready.mode),
                match_mode=MATCH_MODES.index(self._ready.match_mode),
                cassettes=0 if self._ready.mode == "off" else 1,
                entries=self._meter.entries,
                used=0 if self._serving is None else self._serving.used,
                bytes=self._meter.bytes,
            )

    def _check_open(self) -> None:
        if self._closed:
            raise SessionClosed(
                f"{self._ready.path.name} was closed by another thread meanwhile",
                hint="wait for other threads before you close a handle",
            )

    def _check_listed(self, kind: str, op: str) -> None:
        refusal = self._ready.access.unlisted(kind, op)
        if refusal is not None:
            raise refusal

    def _forbidden(self, number: int, what: str, modes: str) -> RrError:
        return RrError(
            number, f"the mode {self._ready.mode} {what}", hint=f"open it in one of: {modes}"
        )

    def close(self, error: BaseException | None = None) -> bool:
        """False the second time. With ``error``, what a rewrite has written is given up.

        Raises :class:`RrError` 2002 when the cassette cannot be completed.
        """
        with self._lock:
            if self._closed:
                return False
            self._closed = True
            try:
                self._finish(error)
            except ReenactError as problem:
                raise failed(self._ready.path, problem) from None
            finally:
                self._ready.parts.close()
        return True

    def _finish(self, error: BaseException | None) -> None:
        sink, writing = self._ready.sink, self._writing
        if sink is None or writing is None:
            return
        if self._is_forked():
            sink.leave()
        elif self._ready.mode == "rewrite" and (error is not None or not writing.appended):
            sink.discard()
            if writing.appended:
                self._ready.settings.warn(
                    f"{self._ready.path} is as it was before, because the scope ended with an error"
                )
        else:
            name = None if error is None else type(error).__name__
            sink.finalize("ok" if error is None else "error", name)

    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def after_fork(self) -> None:
        """In a forked child: whoever held the lock is not here."""
        self._lock = threading.RLock()


def _asked(kind: Any, op: Any, key: Any) -> tuple[str, str, bytes]:
    kind_text, op_text = entries.name_text(kind), entries.name_text(op)
    if kind_text is None or op_text is None:
        raise UsageError("kind and op are text", hint="rr.next(handle, 'http', 'get', b'key')")
    if not isinstance(key, (str, bytes)):
        raise UsageError(
            f"a key is bytes (or text), not {type(key).__name__}",
            hint="b'' for none, where the match mode is transcript",
        )
    return kind_text, op_text, entries.raw_bytes(key)
