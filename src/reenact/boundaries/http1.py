"""HTTP/1 as bytes: requests, read along while somebody sends them, and heads of answers."""

from __future__ import annotations

import re
from typing import Any

from reenact.boundaries.bodies import Pairs
from reenact.boundaries.wire import Head

__all__ = ["Outgoing", "head_bytes"]

_LINES = re.compile(rb"\r\n(?![ \t])")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_VERSIONS = ("HTTP/1.0", "HTTP/1.1")


def head_bytes(head: Head) -> bytes:
    """``head`` as it would come over a connection."""
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
        """The next part. Raises ``TypeError`` for what is no bytes, as a socket does."""
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
        """Is all of it sent? Where the head does not tell, nobody knows."""
        return self._body is not None and self._body.is_complete

    @property
    def body(self) -> bytes:
        """Without the frames of the chunked coding."""
        return b"" if self._body is None else self._body.content


class _Sized:
    """A body that is as long as the head says, if it says."""

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
    """A body in chunks. What is no chunk, and all after it, is taken as it is."""

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
        """One more chunk, if it is there."""
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
