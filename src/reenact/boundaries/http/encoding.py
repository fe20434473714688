"""Content codings, for looking into bodies and for packing them again.

A few hundred bytes can be the code of gigabytes, so a body is read in slices so small that what
one of them stands for fits into memory, and no further than :data:`MOST`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec

from reenact.policy.patterns import lazy_pattern

__all__ = ["MOST", "Headers", "Pairs", "Seen", "coding_of", "encode", "look"]

Pairs = tuple[tuple[str, str], ...]
"""Headers in order, repeated ones included."""

Headers = Iterable[tuple[str, str]]
"""Headers that are only iterated over."""

MOST = 64 << 20
"""Maximum decoded bytes per coding."""

_MOST_CODINGS = 5
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class Seen(msgspec.Struct, frozen=True):
    """Decoded content of a body.

    With ``whole``, ``text`` is the complete content, or all of a truncated body. With ``broken``,
    it is the content before the first invalid bytes. With ``hidden``, the content is larger than
    allowed or its coding is not supported here.
    """

    end: Literal["whole", "broken", "hidden"]
    text: bytes = b""


def coding_of(headers: Headers) -> str | None:
    """Return all content codings in ``headers``, in the order of their application."""
    named = [value for key, value in headers if key.lower() == "content-encoding"]
    return ", ".join(named) if named else None


def look(body: bytes, coding: str, *, most: int = MOST) -> Seen | None:
    """Decode ``body``. Never raises.

    Returns None if there is nothing to decode: the codings are unknown, or the bytes are not
    encoded with them.
    """
    end: Literal["whole", "broken"] = "whole"
    for undone, name in enumerate(reversed(_names(coding))):
        if undone == _MOST_CODINGS:
            return Seen("hidden")
        if name not in _CODINGS:
            return Seen("broken", body) if undone else None
        read = _undone(body, _CODINGS[name].texts, most)
        if read is None:
            return Seen("hidden")
        text, whole = read
        if not whole:
            end = "broken"
            if not text:
                return Seen(end, body) if undone else None
        body = text
    return Seen(end, body) if _names(coding) else None


def _undone(
    body: bytes, texts: Callable[[bytes], Iterator[bytes]], most: int
) -> tuple[bytes, bool] | None:
    """Return the decoded content, and whether it is complete.

    Return None if it is too long or cannot be decoded.
    """
    found: list[bytes] = []
    left = most
    try:
        for text in texts(body):
            left -= len(text)
            if left < 0:
                return None
            if text:
                found.append(text)
    except ImportError:
        return (b"", False) if _is_plain(body) else None
    except Exception:  # noqa: BLE001 - each library fails in its own way, on bytes from outside
        return b"".join(found), False
    return b"".join(found), True


def _is_plain(body: bytes) -> bool:
    """Return whether ``body`` is plain text.

    Encoded content has bytes that are not valid in text.
    """
    try:
        return not _CONTROL.search(body.decode("utf-8"))
    except UnicodeDecodeError:
        return False


def encode(body: bytes, coding: str) -> bytes:
    """Encode ``body`` with its codings."""
    for name in _names(coding):
        body = _CODINGS[name].pack(body)
    return body


def _names(coding: str) -> list[str]:
    names = [name.strip().lower() for name in coding.split(",")]
    return [name for name in names if name and name != "identity"]


class _Reader(msgspec.Struct):
    """Something that decodes: ``feed`` takes the next bytes and gives their text."""

    feed: Callable[[bytes], bytes]
    ended: Callable[[], bool]
    unused: Callable[[], bytes]


def _fed(
    body: bytes, reader: Callable[[], _Reader], size: int, *, several: bool
) -> Iterator[bytes]:
    """Decode ``body``, ``size`` bytes at a time.

    With ``several``, consecutive encoded streams are decoded. Other data after the last stream is
    ignored, as clients do.
    """
    start = 0
    while start < len(body):
        place, one, come = start, reader(), False
        while place < len(body) and not one.ended():
            piece = body[place : place + size]
            try:
                text = one.feed(piece)
            except Exception:
                rest = list(_before_the_fault(body, reader, start, place, size))
                if start and not come and not any(rest):
                    return
                yield from rest
                raise
            place += len(piece)
            come = come or bool(text)
            yield text
        if not (several and one.ended()):
            return
        start = place - len(one.unused())


def _before_the_fault(
    body: bytes, reader: Callable[[], _Reader], start: int, place: int, size: int
) -> Iterator[bytes]:
    """Yield the content of the slice at ``place`` byte by byte, up to the first invalid byte.

    An error after a text must not hide the text.
    """
    one = reader()
    for at in range(start, place, size):
        one.feed(body[at : min(at + size, place)])
    for at in range(place, min(place + size, len(body))):
        try:
            yield one.feed(body[at : at + 1])
        except Exception:  # noqa: BLE001 - the fault that is looked for
            return


def _of(one: Any) -> _Reader:
    """Return a reader for the common interface of the standard library's decompressors."""
    return _Reader(one.decompress, lambda: one.eof, lambda: one.unused_data)


def _gunzipped(body: bytes) -> Iterator[bytes]:
    return _fed(body, lambda: _zlib(zlib.MAX_WBITS | 16), 8_192, several=True)


def _inflated(body: bytes) -> Iterator[bytes]:
    """Decode a deflate body. Some servers omit the zlib header."""
    come = False
    try:
        for text in _fed(body, lambda: _zlib(zlib.MAX_WBITS), 8_192, several=False):
            come = come or bool(text)
            yield text
    except zlib.error:
        if come:
            raise
        yield from _fed(body, lambda: _zlib(-zlib.MAX_WBITS), 8_192, several=False)


def _zlib(window: int) -> _Reader:
    """Return a zlib reader. One byte can expand to at most 1,032 bytes."""
    return _of(zlib.decompressobj(window))


def _brotli() -> Any:
    try:
        import brotli
    except ImportError:
        import brotlicffi as brotli
    return brotli


def _unbrotlied(body: bytes) -> Iterator[bytes]:
    """Decode a brotli body. Seven bytes can expand to 16 MiB."""
    library = _brotli()

    def reader() -> _Reader:
        one = library.Decompressor()
        return _Reader(one.process, one.is_finished, bytes)

    return _fed(body, reader, 16, several=False)


def _brotlied(body: bytes) -> bytes:
    packed: bytes = _brotli().compress(body)
    return packed


def _zstd() -> tuple[Callable[[], Any], Callable[[bytes], bytes]]:
    """Return the decompressor factory and the compressor of the first available library."""
    try:
        from compression import zstd
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            import zstandard

            return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.compress
    return zstd.ZstdDecompressor, zstd.compress


def _unzstded(body: bytes) -> Iterator[bytes]:
    """Decode a zstd body. Four bytes can expand to 128 KiB."""
    make, _ = _zstd()
    return _fed(body, lambda: _of(make()), 256, several=True)


def _zstded(body: bytes) -> bytes:
    return _zstd()[1](body)


def _gzipped(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


class _Coding(msgspec.Struct, frozen=True):
    texts: Callable[[bytes], Iterator[bytes]]
    pack: Callable[[bytes], bytes]


_GZIP = _Coding(_gunzipped, _gzipped)
_CODINGS = {
    "gzip": _GZIP,
    "x-gzip": _GZIP,
    "deflate": _Coding(_inflated, zlib.compress),
    "br": _Coding(_unbrotlied, _brotlied),
    "zstd": _Coding(_unzstded, _zstded),
}
