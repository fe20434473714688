"""Bodies that were sent compressed, opened without being flooded."""

from __future__ import annotations

import zlib

__all__ = ["inflated"]

_GZIP = zlib.MAX_WBITS | 16
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


def inflated(data: bytes, coding: str, most: int) -> tuple[bytes, bool]:
    """The first ``most`` bytes of what ``data`` stands for, and whether there is more. What cannot
    be opened is given as it is."""
    window = _WINDOWS.get(coding.strip().lower())
    if window is None:
        return data[:most], len(data) > most
    opener = zlib.decompressobj(window)
    try:
        found = opener.decompress(data, most + 1)
    except zlib.error:
        return data[:most], len(data) > most
    return found[:most], len(found) > most or bool(opener.unconsumed_tail)
