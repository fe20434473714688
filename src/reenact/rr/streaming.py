"""Recorded response that is consumed in chunks: X07's ``std.stream.src.rr_send_v1``.

The chunks come from a cassette with entries or from the recording of the current session, within
the limits of the stream.
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, Final, Self

import msgspec

from reenact.boundaries.http.urls import normal_url
from reenact.boundaries.http.wire import load_pieces
from reenact.engine.call import Entry as Recording
from reenact.engine.codecs import PLAIN_STREAM_CODEC, load_exception
from reenact.engine.execution.unused_calls import (
    first_unused,
    is_cassette_entry,
    take_recorded,
    unused_calls,
)
from reenact.engine.session.current import current as current_session
from reenact.engine.session.session import Session
from reenact.errors import RrError, UsageError
from reenact.format.canonical import canonical
from reenact.rr import handles
from reenact.rr.entries import (
    MISS,
    MODE_FORBIDS_NEXT,
    STREAM_CFG_INVALID,
    STREAM_OVER_IN_BYTES,
    STREAM_OVER_ITEMS,
    STREAM_OVER_OUT_BYTES,
    Entry,
    raw_bytes,
    read,
)

__all__ = [
    "CHUNK_MAX_BYTES",
    "KIND",
    "OP",
    "Limits",
    "Recorded",
    "Stream",
    "of_entry",
    "of_session",
    "stream",
]

CHUNK_MAX_BYTES: Final = 64 * 1024


class Limits:
    """Counts one stream: what comes out of the cassette, and what is handed over.

    Raises :class:`RrError` 1 for limits that make no sense, as X07 does: each is a whole number
    above 0, and a buffer holds at least one chunk.
    """

    def __init__(
        self,
        chunk_max_bytes: int,
        bufread_cap_bytes: int | None,
        max_in_bytes: int | None,
        max_out_bytes: int | None,
        max_items: int | None,
    ) -> None:
        for name, value in list(locals().items()):
            if name != "self" and value is not None and (type(value) is not int or value <= 0):
                raise _invalid(f"{name} is {value!r:.64}", "a whole number above 0")
        if bufread_cap_bytes is not None and bufread_cap_bytes < chunk_max_bytes:
            raise _invalid(
                f"bufread_cap_bytes is {bufread_cap_bytes}, and a chunk may have {chunk_max_bytes}",
                "at least chunk_max_bytes",
            )
        self._chunk = chunk_max_bytes
        self._most = {
            STREAM_OVER_IN_BYTES: ("max_in_bytes", max_in_bytes),
            STREAM_OVER_OUT_BYTES: ("max_out_bytes", max_out_bytes),
            STREAM_OVER_ITEMS: ("max_items", max_items),
        }
        self._counts = dict.fromkeys(self._most, 0)

    def cut(self, piece: bytes) -> Iterator[bytes]:
        """``piece`` of the recording in the pieces that are handed over. Raises 2, 3 and 4."""
        self._add(STREAM_OVER_IN_BYTES, len(piece))
        for start in range(0, len(piece), self._chunk):
            part = piece[start : start + self._chunk]
            self._add(STREAM_OVER_OUT_BYTES, len(part))
            self._add(STREAM_OVER_ITEMS, 1)
            yield part

    def _add(self, number: int, more: int) -> None:
        name, most = self._most[number]
        self._counts[number] += more
        if most is not None and self._counts[number] > most:
            raise RrError(
                number,
                f"the stream has more than {name}, which is {most}",
                hint=f"raise {name}, or stop reading before",
            )


def _invalid(message: str, hint: str) -> RrError:
    return RrError(STREAM_CFG_INVALID, message, hint=hint)


KIND: Final = "rr"
"""The kind that a stream is looked for with, unless its caller gives another."""

OP: Final = "std.stream.src.rr_send_v1"
"""The operation that a stream is looked for with, unless its caller gives another."""

_Fits = Callable[[Recording], bool]

_SHOWN = 80
_NAMED = 5


class Recorded(msgspec.Struct, frozen=True):
    """The pieces that came, as they came, and how it ended: with an error number, or an exception."""

    pieces: tuple[bytes, ...]
    err: int = 0
    error: BaseException | None = None


def of_entry(entry: Entry) -> Recorded:
    """Of one entry of a cassette, cut where it was recorded to be."""
    ends = [*(min(cut, len(entry.resp)) for cut in entry.cuts), len(entry.resp)]
    pieces = (entry.resp[start:end] for start, end in zip([0, *ends], ends, strict=False))
    return Recorded(tuple(filter(None, pieces)), entry.err)


def of_session(session: Session, key: str, kind: str | None, op: str | None) -> Recorded:
    """Of the earliest unused call in a session's recording that ``key`` names, which is used by this.

    Raises :class:`RrError` 2009 when there is none, 2012 when the session does not replay.
    """
    session.check_open()
    if session.mode != "replay" or session.fork is not None:
        raise RrError(
            MODE_FORBIDS_NEXT,
            f"a session in the mode {session.mode} serves no streams by key",
            hint="replay the recording; while it is made, the program makes the call itself",
        )
    taken = None
    while taken is None:
        entry = _chosen(session, key, kind, op)
        if entry is None:
            raise _miss(session, key, kind, op)
        taken = take_recorded(session, entry, lambda answer: len(_loaded(answer)))
    response, failed = taken
    assert entry is not None  # something was taken
    if is_cassette_entry(entry.opening.data):
        return of_entry(read(entry.opening.data, f"event {entry.seq}"))
    return Recorded(_bytes(response), error=None if failed is None else load_exception(failed))


def _chosen(session: Session, key: str, kind: str | None, op: str | None) -> Recording | None:
    """Return the entry that a scope would serve if there is one, else any call that ``key`` names."""
    if kind is None and op is None:
        found = _find(session, _named(session, key, KIND, OP))
        if found is not None:
            return found
    return _find(session, _named(session, key, kind, op))


def _miss(session: Session, key: str, kind: str | None, op: str | None) -> RrError:
    """Return an error that lists the recorded calls without the key, which can contain a secret."""
    narrowed = "".join(
        f", the {name} {value[:_SHOWN]!r}" for name, value in (("kind", kind), ("op", op)) if value
    )
    with session.lock:
        left = list(unused_calls(session))
    names = dict.fromkeys(f"{one.kind} {one.operation[:_SHOWN]}" for one in left)
    shown = session.redacted_text(", ".join(list(names)[:_NAMED])) or "nothing"
    return RrError(
        MISS,
        f"no unused call in {session.settings.path or 'the recording'} has this key "
        f"({len(key)} characters){narrowed}",
        hint=f"a key is a URL, GET and a URL, an operation, or a recorded key; unused is {shown}",
    )


def _find(session: Session, fits: _Fits) -> Recording | None:
    if session.settings.policy.match != "transcript":
        return first_unused(session, fits)
    with session.lock:
        entry = next(unused_calls(session), None)
    return entry if entry is not None and fits(entry) else None


def _named(session: Session, key: str, kind: str | None, op: str | None) -> _Fits:
    """Secrets are taken out of ``key`` first, as they were taken out of the recording."""
    method, space, rest = key.partition(" ")
    url = session.redacted_text(normal_url(rest if space else key))

    def fits(entry: Recording) -> bool:
        if kind not in (None, entry.kind) or op not in (None, entry.operation):
            return False
        if key in (entry.key, entry.operation):
            return True
        asked = entry.opening.data.get("request")
        if not isinstance(asked, dict) or asked.get("url") != url:
            return False
        return not space or asked.get("method") == method

    return fits


def _loaded(response: Any) -> list[Any]:
    """Return the delivered chunks as bytes."""
    if _is_http(response):
        return load_pieces(response)
    return PLAIN_STREAM_CODEC.load(response)


def _is_http(response: Any) -> bool:
    return isinstance(response, dict) and "status" in response and "headers" in response


def _bytes(response: Any) -> tuple[bytes, ...]:
    if response is None:
        return ()
    pieces = _loaded(response)
    if _is_http(response):
        pieces = pieces[1:]  # the head
    elif not isinstance(response, dict) or "chunks" not in response:
        pieces = [response]
    return tuple(filter(None, map(_encoded, pieces)))


def _encoded(piece: Any) -> bytes:
    """Text as UTF-8, values as JSON."""
    if isinstance(piece, bytes):
        return bytes(piece)
    return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else canonical(piece)


class Stream(Iterator[bytes], AsyncIterator[bytes]):
    """Stream created by :func:`reenact.rr.stream`. Iterate over it once, with ``for`` or ``async
    for``.

    A stream can be left early with :meth:`close`, ``with`` or an exception. Its entry counts as
    used.
    """

    err: int
    """The error number of the entry; 0 for none, and before the first piece."""

    def __init__(self, key: str | bytes, kind: str | None, op: str | None, limits: Limits) -> None:
        self.err = 0
        self._asked = key, kind, op
        self._pieces: Generator[bytes] = self._run(limits)

    def _run(self, limits: Limits) -> Generator[bytes]:
        recorded = _recorded(*self._asked)
        self.err = recorded.err
        for piece in recorded.pieces:
            yield from limits.cut(piece)
        if recorded.error is not None:
            raise recorded.error

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        return next(self._pieces)

    def close(self) -> None:
        """Nothing more comes. Before the first piece, nothing has been taken."""
        self._pieces.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await _turn()  # others get their turn, and a task that was cancelled stops here
        try:
            return next(self._pieces)
        except StopIteration:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """See :meth:`close`."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *ended: object) -> None:
        self.close()


def stream(
    key: str | bytes,
    *,
    kind: str | None = None,
    op: str | None = None,
    chunk_max_bytes: int = CHUNK_MAX_BYTES,
    bufread_cap_bytes: int | None = None,
    max_in_bytes: int | None = None,
    max_out_bytes: int | None = None,
    max_items: int | None = None,
) -> Stream:
    """Return the recorded response for ``key`` in its recorded chunks, split at
    ``chunk_max_bytes``.

    In a scope of :mod:`reenact.rr` it is the entry that :func:`reenact.rr.next` returns for
    ``kind`` (default: ``rr``), ``op`` (default: ``std.stream.src.rr_send_v1``) and ``key``. In a
    replayed session it is the earliest unused call of this lane, then of any lane, that ``key``
    names: by its URL (also ``GET URL``), its operation, or its key in the recording. ``kind`` and
    ``op`` narrow the search.

    The lookup happens when the first chunk is requested. ``max_in_bytes`` limits the bytes read
    from the cassette; ``max_out_bytes`` and ``max_items`` limit the output. Raises :class:`RrError`
    1 for invalid limits. Iteration raises 2 to 4 at a limit, and the errors of ``next``.
    """
    if not isinstance(key, (str, bytes)):
        raise UsageError(
            f"a key is text or bytes, not {type(key).__name__}", hint="rr.stream('GET https://…')"
        )
    limits = Limits(chunk_max_bytes, bufread_cap_bytes, max_in_bytes, max_out_bytes, max_items)
    return Stream(key, kind, op, limits)


def _recorded(key: str | bytes, kind: str | None, op: str | None) -> Recorded:
    handle = handles.current()
    if handle:
        return of_entry(handles.next_entry(handle, kind or KIND, OP if op is None else op, key))
    session = current_session()
    if session is None:
        raise UsageError(
            "there is nothing to stream from: no scope and no session is open here",
            hint="with reenact.session('name', mode='replay'): … or with rr.scope(cfg): …",
        )
    return of_session(session, raw_bytes(key).decode("utf-8", "replace"), kind, op)


@types.coroutine
def _turn() -> Generator[Any, Any, None]:
    """Yield to the event loop like ``asyncio.sleep(0)``, without reading the clock or the loop."""
    yield
