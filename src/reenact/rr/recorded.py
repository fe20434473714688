"""What was recorded for a key, as pieces of bytes: in a cassette of entries, or in a session's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from reenact.boundaries.urls import normal_url
from reenact.boundaries.wire import load_pieces
from reenact.engine.call import Entry as Recording
from reenact.engine.codecs import PLAIN_STREAM_CODEC, load_exception
from reenact.engine.execution.unused_calls import (
    first_unused,
    is_cassette_entry,
    take_recorded,
    unused_calls,
)
from reenact.engine.session.session import Session
from reenact.errors import RrError
from reenact.format.canonical import canonical
from reenact.rr.entries import Entry, read
from reenact.rr.numbers import MISS, MODE_FORBIDS_NEXT

__all__ = ["KIND", "OP", "Recorded", "of_entry", "of_session"]

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
    """Says which calls there are, and not what the key is: it may hold a secret."""
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
    """The pieces that were handed over, whatever they were."""
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
