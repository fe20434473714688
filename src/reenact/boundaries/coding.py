"""Content codings, for looking into bodies and for packing them again."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Any

__all__ = ["decode", "encode"]


def _inflate(data: bytes) -> bytes:
    """Some servers leave out the zlib header."""
    try:
        return zlib.decompressobj().decompress(data)
    except zlib.error:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data)


def _gunzip(data: bytes) -> bytes:
    return _members(data, lambda: zlib.decompressobj(zlib.MAX_WBITS | 16))


def _members(data: bytes, reader: Callable[[], Any]) -> bytes:
    """All that were put one after the other. What follows and is none does not count, as it does
    not for clients."""
    text: list[bytes] = []
    while data:
        member = reader()
        try:
            text.append(member.decompress(data))
        except Exception:
            if not text:
                raise
            break
        data = member.unused_data
    return b"".join(text)


def _brotli() -> Any:
    try:
        import brotli
    except ImportError:
        import brotlicffi as brotli
    return brotli


def _unbrotli(data: bytes) -> bytes:
    plain: bytes = _brotli().Decompressor().process(data)
    return plain


def _to_brotli(data: bytes) -> bytes:
    packed: bytes = _brotli().compress(data)
    return packed


def _zstd() -> Any:
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd
    return zstd


def _unzstd(data: bytes) -> bytes:
    return _members(data, _zstd().ZstdDecompressor)


def _to_zstd(data: bytes) -> bytes:
    packed: bytes = _zstd().compress(data)
    return packed


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


_Turn = Callable[[bytes], bytes]
_CODINGS: dict[str, tuple[_Turn, _Turn]] = {
    "gzip": (_gunzip, _gzip),
    "x-gzip": (_gunzip, _gzip),
    "deflate": (_inflate, zlib.compress),
    "br": (_unbrotli, _to_brotli),
    "zstd": (_unzstd, _to_zstd),
}


def decode(body: bytes, coding: str) -> bytes | None:
    """``body`` without its content codings; None when one is unknown or does not fit.

    Of a body that breaks off, what there is: a reader may have stopped in the middle.
    """
    try:
        for name in reversed(_names(coding)):
            body = _CODINGS[name][0](body)
    except Exception:  # noqa: BLE001 - each library fails in its own way, on bytes from outside
        return None
    return body


def encode(body: bytes, coding: str) -> bytes:
    """``body`` with them."""
    for name in _names(coding):
        body = _CODINGS[name][1](body)
    return body


def _names(coding: str) -> list[str]:
    names = [name.strip().lower() for name in coding.split(",")]
    return [name for name in names if name and name != "identity"]
