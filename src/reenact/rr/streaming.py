"""A recorded answer, consumed piece by piece: X07's ``std.stream.src.rr_send_v1``."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, Self

from reenact.engine.session.context import current as current_session
from reenact.errors import UsageError
from reenact.rr import handles
from reenact.rr.entries import raw_bytes
from reenact.rr.limits import CHUNK_MAX_BYTES, Limits
from reenact.rr.recorded import KIND, OP, Recorded, of_entry, of_session

__all__ = ["Stream", "stream"]


class Stream(Iterator[bytes], AsyncIterator[bytes]):
    """Made by :func:`reenact.rr.stream`. Iterate over it with ``for`` or ``async for``, once.

    Leaving it early, by :meth:`close`, ``with`` or an exception, is no mistake: the entry is used.
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
    """What was recorded for ``key``, as the pieces that came; larger ones than ``chunk_max_bytes``
    are cut.

    In a scope of :mod:`reenact.rr` it is the entry that :func:`reenact.rr.next` gives for ``kind``
    (by default ``rr``), ``op`` (``std.stream.src.rr_send_v1``) and ``key``. Else, in a session that
    replays, the earliest unused call of this lane, then of any, that ``key`` names: by its URL (also
    ``GET URL``), its operation, or its key in the recording; ``kind`` and ``op`` narrow it down.

    It is looked up when the first piece is asked for. ``max_in_bytes`` limits what comes out of the
    cassette, ``max_out_bytes`` and ``max_items`` what is handed over. Raises :class:`RrError` 1 for
    limits that make no sense; the pieces raise 2 to 4 at a limit, and what ``next`` raises.
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
    """What ``asyncio.sleep(0)`` does, without asking the clock or the loop for anything."""
    yield
