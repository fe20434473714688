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
        return zlib.decompress(data)
    except zlib.error:
        return zlib.decompress(data, -zlib.MAX_WBITS)


def _gunzip(data: bytes) -> bytes:
    """As much as there is: a reader may have stopped in the middle."""
    return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data)


def _brotli() -> Any:
    try:
        import brotli
    except ImportError:
        import brotlicffi as brotli
    return brotli


def _unbrotli(data: bytes) -> bytes:
    plain: bytes = _brotli().decompress(data)
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
    plain: bytes = _zstd().decompress(data)
    return plain


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
    """``body`` without its content codings; None when one is unknown or does not fit."""
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
