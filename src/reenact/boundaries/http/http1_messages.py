"""HTTP/1 as bytes: request parser, response heads, and recorded responses in transit.

A library built on http.client gets a real ``HTTPResponse`` over a file that delivers the recorded
response. The library's own code reads it: piece by piece, chunk by chunk, and cut short where the
recorded response was.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from http.client import HTTPMessage, HTTPResponse, IncompleteRead
from typing import Any

from reenact.boundaries.http.api import Reply
from reenact.boundaries.http.bodies import Pairs
from reenact.boundaries.http.wire import Head, Partial

__all__ = [
    "Outgoing",
    "body_of",
    "file_of",
    "head_bytes",
    "head_of",
    "joined",
    "respond",
    "target_url",
]

_LINES = re.compile(rb"\r\n(?![ \t])")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_VERSIONS = ("HTTP/1.0", "HTTP/1.1")


def head_bytes(head: Head) -> bytes:
    """Return ``head`` in its wire format."""
    version = head.version if head.version in _VERSIONS else "HTTP/1.1"
    lines = [f"{version} {head.status:03d} {head.reason}"]
    lines += [f"{name}: {value}" for name, value in head.headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


class Outgoing:
    """One request, in the ``parts`` in which it was sent."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.method = ""
        self.target = ""
        self.headers: Pairs = ()
        self._head = bytearray()
        self._body: _Sized | _Chunked | None = None

    def add(self, data: Any) -> None:
        """Add the next part. Raises ``TypeError`` if it is not bytes, as a socket does."""
        part = memoryview(data).tobytes()
        self.parts.append(part)
        if self._body is not None:
            self._body.add(part)
            return
        self._head += part
        head, blank, rest = self._head.partition(b"\r\n\r\n")
        if blank:
            self._body = self._begin(bytes(head))
            self._body.add(bytes(rest))

    def _begin(self, head: bytes) -> _Sized | _Chunked:
        first, *lines = _LINES.split(head)
        self.method, _, rest = first.decode("latin-1").partition(" ")
        self.target = rest.rpartition(" ")[0]
        pairs = (line.decode("latin-1").partition(":") for line in lines)
        self.headers = tuple((name, value.strip()) for name, _, value in pairs)
        said = {name.lower(): value for name, value in self.headers}
        if "chunked" in said.get("transfer-encoding", "").lower():
            return _Chunked()
        length = said.get("content-length", "")
        if length.isdecimal():
            return _Sized(int(length))
        return _Sized(None if self.method in _WITH_BODY else 0)

    @property
    def is_complete(self) -> bool:
        """True if the complete request was sent.

        It is False if the head does not specify the length.
        """
        return self._body is not None and self._body.is_complete

    @property
    def body(self) -> bytes:
        """Body without the framing of the chunked coding."""
        return b"" if self._body is None else self._body.content


class _Sized:
    """Body with the length in its head, or of unknown length."""

    def __init__(self, length: int | None) -> None:
        self._length = length
        self._parts: list[bytes] = []
        self._came = 0

    def add(self, part: bytes) -> None:
        self._parts.append(part)
        self._came += len(part)

    @property
    def is_complete(self) -> bool:
        return self._length is not None and self._came >= self._length

    @property
    def content(self) -> bytes:
        return b"".join(self._parts)


class _Chunked:
    """Body in chunks. Data after an invalid chunk is used unchanged."""

    def __init__(self) -> None:
        self.is_complete = False
        self._data = bytearray()
        self._chunks: list[bytes] = []
        self._at = 0

    def add(self, part: bytes) -> None:
        self._data += part
        while not self.is_complete and self._take():
            pass

    def _take(self) -> bool:
        """Read one more chunk, if it is complete."""
        start = self._data.find(b"\r\n", self._at) + 2
        size = _size(bytes(self._data[self._at : start]))
        if size == 0:
            self.is_complete = self._data.find(b"\r\n\r\n", start - 2) >= 0
        if not size or len(self._data) < start + size + 2:
            return False
        self._chunks.append(bytes(self._data[start : start + size]))
        self._at = start + size + 2
        return True

    @property
    def content(self) -> bytes:
        rest = b"" if self.is_complete else bytes(self._data[self._at :])
        return b"".join(self._chunks) + rest


def _size(line: bytes) -> int | None:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        return None


_MOST = 65_536
"""Bytes of a body in one piece."""
_LINE = 65_536
"""Maximum bytes of a line, as in http.client."""
_SHOWN = 16_384
"""Bytes of a line that is kept with a failure."""
_HUGE = 1 << 64
"""Upper limit of the chunk size, which real chunks never reach."""
_PORTS = {"http": 80, "https": 443}


# From the wire


def head_of(response: HTTPResponse) -> Head:
    """Return the head of a live response."""
    return Head(
        status=response.status,
        reason=response.reason,
        version="HTTP/1.0" if response.version == 10 else "HTTP/1.1",
        headers=tuple(response.msg.items()),
    )


def body_of(response: HTTPResponse) -> Iterator[bytes]:
    """Yield the body of a live response as it arrives.

    A piece is a chunk of the chunked coding, or the data that arrived together. A marker precedes
    data that does not end its chunk.

    Raises ``IncompleteRead`` for a truncated body. It contains the missing number of bytes of the
    last chunk, or the line with an invalid chunk size.
    """
    if not hasattr(response, "_method"):
        return _whole(response)
    if response.length == 0 or response._method == "HEAD":
        return iter(())
    return _chunks(response) if response.chunked else _plain(response)


def _whole(response: Any) -> Iterator[bytes]:
    """Yield the body of a mocked response, which has only the public interface and no framing."""
    body: bytes = response.read()
    if body:
        yield body


def _plain(response: HTTPResponse) -> Iterator[bytes]:
    while piece := response.read1(_MOST):
        yield piece
    if response.length:
        raise IncompleteRead(b"", response.length)


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    file = response.fp
    while size := _chunk_size(file):
        yield from _chunk(file, size)
    while file.readline(_LINE) not in (b"\r\n", b"\n", b""):
        pass  # trailers, which http.client does not give to anybody


def _chunk_size(file: Any) -> int:
    line: bytes = file.readline(_LINE)
    try:
        size = int(line.partition(b";")[0], 16)
    except ValueError:
        size = -1
    if size < 0:
        raise IncompleteRead(line[:_SHOWN])
    return min(size, _HUGE)


def _chunk(file: Any, left: int) -> Iterator[bytes]:
    """Yield the data of a chunk as it arrives.

    The last piece is yielded after the line end, because some clients wait for it.
    """
    while piece := file.read1(min(left, _MOST)):
        left -= len(piece)
        if not left:
            break
        yield Partial(left)
        yield piece
    else:
        raise IncompleteRead(b"", left)
    end = b""
    try:
        end = file.read(2)
    finally:
        if len(end) < 2:
            yield Partial(0)
        yield piece
    if len(end) < 2:
        raise IncompleteRead(end, 2 - len(end))


def joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join ``pieces``, also if they are truncated.

    The data of an incomplete chunk stays separate.
    """
    came: list[bytes] = []
    ended = 0
    last: Partial | None = None
    marker: Partial | None = None
    try:
        for piece in pieces:
            if isinstance(piece, Partial):
                marker = piece
                continue
            came.append(piece)
            if marker is None:
                ended = len(came)
            last, marker = marker, None
    finally:
        if ended:
            yield b"".join(came[:ended])
        if last is not None:
            yield last
            yield b"".join(came[ended:])


# To the wire


class _Wired(io.RawIOBase):
    """``reply`` as the bytes that a server sends. Closing it closes the reply."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._chunked = (reply.head.header("transfer-encoding") or "").lower() == "chunked"
        self._ready: memoryview | None = None
        self._inside = False
        """Is a chunk begun that has not ended?"""
        self._over = False

    def skip_head(self) -> None:
        """Skip the head, which was already read."""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._ready is None:
            self._ready = memoryview(head_bytes(self._reply.head))
        elif not self._ready and not self._over:
            self._ready = memoryview(self._next())
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def _next(self) -> bytes:
        """Return the next piece with its chunk framing.

        Return the final frame, or empty bytes, at the end.
        """
        try:
            piece, left = self._piece()
        except IncompleteRead as short:
            self._over = True
            return self._cut(short)
        except BaseException:
            self._over = True
            raise
        if piece:
            return self._framed(piece, left) if self._chunked else piece
        self._over = True
        if not self._chunked:
            return b""
        return b"\r\n0\r\n\r\n" if self._inside else b"0\r\n\r\n"

    def _piece(self) -> tuple[bytes, int | None]:
        """Return the next piece, which is empty at the end, and the rest of its chunk.

        The rest is None if the piece ends its chunk.
        """
        left = None
        for piece in self._reply:
            if piece:
                return piece, left
            left = piece.left if isinstance(piece, Partial) else None
        return b"", None

    def _framed(self, piece: bytes, left: int | None) -> bytes:
        size = b"" if self._inside else b"%x\r\n" % (len(piece) + (left or 0))
        self._inside = left is not None
        return b"%b%b%b" % (size, piece, b"" if self._inside else b"\r\n")

    def _cut(self, short: IncompleteRead) -> bytes:
        if not self._chunked or self._inside or short.expected is None:
            return short.partial
        return b"%x\r\n%b" % (len(short.partial) + short.expected, short.partial)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._reply.close()


def file_of(reply: Reply, method: str) -> io.BufferedReader:
    """Return the response to a request of this method as a file, as http.client reads it from a
    socket."""
    if _ends_with_head(reply.head, method):
        for _ in reply:  # read the end, because the client does not read further
            pass
    return io.BufferedReader(_Wired(reply))


def _ends_with_head(head: Head, method: str) -> bool:
    """Return whether the response has no body, regardless of its headers."""
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return True
    return head.length == 0 and head.header("transfer-encoding") is None


class _Line:
    """Minimal socket from which http.client can read a response."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._file


def respond(reply: Reply, method: str, debuglevel: int = 0) -> HTTPResponse:
    """Return an ``HTTPResponse`` for ``reply``, with its head already read."""
    line = _Line(file_of(reply, method))
    response: Any = HTTPResponse(line, debuglevel, method)  # type: ignore[arg-type]
    if debuglevel:
        response.begin()  # prints the head that it reads
    else:
        _begin(response, reply.head)
    return response  # type: ignore[no-any-return]


def _begin(response: Any, head: Head) -> None:
    """Initialise the response like ``begin``, but without parsing the head again."""
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
    """Return the URL of a request for ``target``. A request to a proxy already contains the URL."""
    if "://" in target.partition("?")[0]:
        return target
    place = f"[{host}]" if ":" in host and not host.startswith("[") else host
    if port is not None and port != _PORTS[scheme]:
        place = f"{place}:{port}"
    return f"{scheme}://{place}/{target.removeprefix('/')}"
