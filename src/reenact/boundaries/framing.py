"""HTTP/1 as bytes: answers as a server would send them, and the bodies of those that one sent.

What is built on http.client gets a real ``HTTPResponse`` over a file that sends the answer again,
so that its own code reads it: piece by piece, chunk by chunk, cut short where it was cut short.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from http.client import HTTPMessage, HTTPResponse, IncompleteRead
from typing import Any

from reenact.boundaries.http import Head, Reply

__all__ = ["body_of", "file_of", "head_of", "joined", "respond", "target_url"]

_MOST = 65_536
"""Bytes of a body in one piece."""
_LINE = 65_536
"""Bytes of a line; http.client allows no more either."""
_VERSIONS = ("HTTP/1.0", "HTTP/1.1")
_PORTS = {"http": 80, "https": 443}


# From the wire


def head_of(response: HTTPResponse) -> Head:
    """The head of a live answer."""
    return Head(
        status=response.status,
        reason=response.reason,
        version="HTTP/1.0" if response.version == 10 else "HTTP/1.1",
        headers=tuple(response.msg.items()),
    )


def body_of(response: HTTPResponse) -> Iterator[bytes]:
    """The body of a live answer as it arrives: a piece is a chunk of the chunked coding, or what
    came at once.

    Raises ``IncompleteRead`` where it is cut short, with what came of the last chunk and how much
    of it did not.
    """
    if response.length == 0 or response._method == "HEAD":  # type: ignore[attr-defined]
        return iter(())
    return _chunks(response) if response.chunked else _plain(response)


def _plain(response: HTTPResponse) -> Iterator[bytes]:
    while piece := response.read1(_MOST):
        yield piece
    if response.length:
        raise IncompleteRead(b"", response.length)


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    file = response.fp
    while size := _size(file):
        chunk: bytes = file.read(size)
        if len(chunk) < size:
            raise IncompleteRead(chunk, size - len(chunk))
        yield chunk
        file.readline(_LINE)
    while file.readline(_LINE) not in (b"\r\n", b"\n", b""):
        pass  # trailers, which http.client does not give to anybody


def _size(file: Any) -> int:
    line: bytes = file.readline(_LINE)
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise IncompleteRead(line) from None


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """All of ``pieces`` as one, also when they break off."""
    came: list[bytes] = []
    try:
        came.extend(pieces)
    finally:
        if came:
            yield b"".join(came)


# To the wire


class _Wired(io.RawIOBase):
    """``reply`` as the bytes that a server sends. Closing it closes the reply."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._chunked = (reply.head.header("transfer-encoding") or "").lower() == "chunked"
        self._ready: memoryview | None = None
        self._over = False

    def skip_head(self) -> None:
        """It has been read already."""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ready is None:
            self._ready = memoryview(_head_bytes(self._reply.head))
        elif not self._ready and not self._over:
            self._ready = memoryview(self._next())
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _next(self) -> bytes:
        """The next piece in its frame; after the last one nothing, or the frame that says so."""
        try:
            piece = next((piece for piece in self._reply if piece), None)
        except IncompleteRead as short:
            self._over = True
            return self._cut(short)
        except BaseException:
            self._over = True
            raise
        if piece is not None:
            return b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece
        self._over = True
        return b"0\r\n\r\n" if self._chunked else b""

    def _cut(self, short: IncompleteRead) -> bytes:
        if not self._chunked or short.expected is None:
            return short.partial
        return b"%x\r\n%b" % (len(short.partial) + short.expected, short.partial)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._reply.close()


def _head_bytes(head: Head) -> bytes:
    version = head.version if head.version in _VERSIONS else "HTTP/1.1"
    lines = [f"{version} {head.status} {head.reason}"]
    lines += [f"{name}: {value}" for name, value in head.headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def file_of(reply: Reply, method: str) -> io.BufferedReader:
    """The answer to a request of this method, as http.client reads it from a socket."""
    if _ends_with_head(reply.head, method):
        for _ in reply:  # nobody will read on, and still the call is over
            pass
    return io.BufferedReader(_Wired(reply))


def _ends_with_head(head: Head, method: str) -> bool:
    """Whatever the head says."""
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return True
    return head.length == 0 and head.header("transfer-encoding") is None


class _Line:
    """All that http.client wants of a socket for reading an answer."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._file


def respond(reply: Reply, method: str, debuglevel: int = 0) -> HTTPResponse:
    """The answer that ``reply`` is, with its head read."""
    line = _Line(file_of(reply, method))
    response: Any = HTTPResponse(line, debuglevel, method)  # type: ignore[arg-type]
    if debuglevel:
        response.begin()  # which says what it reads
    else:
        _begin(response, reply.head)
    return response  # type: ignore[no-any-return]


def _begin(response: Any, head: Head) -> None:
    """What ``begin`` does, which would take the head apart again that we have in parts."""
    response.fp.raw.skip_head()
    response.code = response.status = head.status
    response.reason = head.reason.strip()
    response.version = 10 if head.version == "HTTP/1.0" else 11
    response.headers = response.msg = message = HTTPMessage()
    for name, value in head.headers:
        message.set_raw(name, value)
    message.set_payload("")
    response.chunked = (message.get("transfer-encoding") or "").lower() == "chunked"
    if response.chunked:
        response.chunk_left = None
    response.will_close = response._check_close()
    response.length = None if response.chunked else _length(message.get("content-length"))
    if _ends_with_head(head, response._method):
        response.length = 0
    if not response.chunked and response.length is None:
        response.will_close = True


def _length(said: str | None) -> int | None:
    try:
        length = int(said or "")
    except ValueError:
        return None
    return length if length >= 0 else None


def target_url(scheme: str, host: str, port: int | None, target: str) -> str:
    """The URL of a request for ``target``; a request to a proxy names it already."""
    if "://" in target.partition("?")[0]:
        return target
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    if port is not None and port != _PORTS[scheme]:
        place = f"{place}:{port}"
    return f"{scheme}://{place}/{target.removeprefix('/')}"
