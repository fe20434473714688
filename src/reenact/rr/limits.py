"""How much a stream may be, and the pieces it comes in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reenact.errors import RrError
from reenact.rr.numbers import (
    STREAM_CFG_INVALID,
    STREAM_OVER_IN_BYTES,
    STREAM_OVER_ITEMS,
    STREAM_OVER_OUT_BYTES,
)

__all__ = ["CHUNK_MAX_BYTES", "Limits"]

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
