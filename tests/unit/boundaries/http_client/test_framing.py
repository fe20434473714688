"""Answers as bytes: what http.client makes of ours is what it makes of a server's."""

from __future__ import annotations

import http.client
import io
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.boundaries.http.api import Head, Reply
from reenact.boundaries.http.http1_messages import (
    body_of,
    file_of,
    head_of,
    joined,
    respond,
    target_url,
)
from reenact.boundaries.http.wire import Partial


class _Received(io.BufferedReader):
    """An exception that a test keeps holds the response. Collected together, the file may go first,
    and Python 3.13 tells that the response could not flush it."""

    def flush(self) -> None:
        if not self.closed:
            super().flush()


class _Pipe:
    """A socket with something in it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BufferedReader:
        return _Received(io.BytesIO(self._data))


def _reply(head: Head, *pieces: bytes, error: BaseException | None = None) -> Reply:
    def iterate() -> Iterator[Any]:
        yield head
        yield from pieces
        if error is not None:
            raise error

    return Reply(iterate())


def _live(data: bytes, method: str = "GET") -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(_Pipe(data), method=method)  # type: ignore[arg-type]
    response.begin()
    return response


_FIELDS = ("status", "code", "reason", "version", "chunked", "chunk_left", "length", "will_close")


def _facts(response: Any) -> dict[str, Any]:
    facts = {name: getattr(response, name) for name in _FIELDS}
    return {**facts, "headers": response.getheaders(), "printed": str(response.msg)}


_values = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=8)
_headers = st.lists(
    st.one_of(
        st.tuples(st.just("Content-Length"), st.sampled_from(["0", "5", "-1", "many"])),
        st.tuples(st.just("transfer-encoding"), st.sampled_from(["chunked", "Chunked", "gzip"])),
        st.tuples(st.sampled_from(["Connection", "keep-alive"]), st.sampled_from(["close", "x"])),
        st.tuples(st.sampled_from(["X-A", "x-a", "Set-Cookie"]), _values),
    ),
    max_size=5,
)
_heads = st.builds(
    Head,
    status=st.sampled_from([200, 204, 304, 404, 500]),
    reason=st.sampled_from(["OK", "Not At All", ""]),
    version=st.sampled_from(["HTTP/1.0", "HTTP/1.1"]),
    headers=_headers.map(tuple),
)


@given(_heads, st.sampled_from(["GET", "HEAD", "POST"]))
def test_a_head_is_begun_as_http_client_begins_it(head: Head, method: str) -> None:
    """Once from its parts, and once read from the bytes."""
    parts = respond(_reply(head), method)
    read = http.client.HTTPResponse(
        _File(file_of(_reply(head), method)),  # type: ignore[arg-type]
        method=method,
    )
    read.begin()
    assert _facts(parts) == _facts(read)
    parts.close()
    read.close()


class _File:
    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._file


@given(
    st.lists(st.binary(min_size=1, max_size=20), max_size=5),
    st.sampled_from(["chunked", "length", "end"]),
)
def test_a_body_goes_to_the_wire_and_comes_back(pieces: list[bytes], framing: str) -> None:
    body = b"".join(pieces)
    said = {
        "chunked": (("Transfer-Encoding", "chunked"),),
        "length": (("Content-Length", str(len(body))),),
        "end": (),
    }
    head = Head(status=200, reason="Fine", headers=said[framing])
    with file_of(_reply(head, *pieces), "GET") as file:
        sent = file.read()
    live = _live(sent)
    assert head_of(live) == head
    came = list(body_of(live))
    assert b"".join(came) == body
    assert framing != "chunked" or came == pieces


class _Dribbling(io.RawIOBase):
    """A few bytes at a time."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._data.read(min(self._step, len(buffer)))
        buffer[: len(part)] = part
        return len(part)


class _Trickle:
    """A socket out of which little comes at once."""

    def __init__(self, data: bytes, step: int) -> None:
        self._file = _Dribbling(data, step)

    def makefile(self, mode: str) -> io.BufferedReader:
        return _Received(self._file)


_CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5\r\nfirst\r\na;x=1\r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n"
)
_BODY = _CHUNKED.index(b"5\r\n")


def _again(data: bytes, step: int, *, whole: bool) -> http.client.HTTPResponse:
    """What a client gets of what was read out of ``data``."""
    live = http.client.HTTPResponse(_Trickle(data, step))  # type: ignore[arg-type]
    live.begin()
    pieces: list[bytes] = []
    error = None
    try:
        pieces.extend(joined(body_of(live)) if whole else body_of(live))
    except http.client.IncompleteRead as short:
        error = short
    return respond(_reply(head_of(live), *pieces, error=error), "GET")


def _read(response: http.client.HTTPResponse, size: int | None) -> Any:
    """All of it, or how it breaks, in parts of this size."""
    parts: list[Any] = []
    try:
        while part := response.read(size):
            parts.append(part)
    except http.client.IncompleteRead as short:
        parts += [repr(short), repr(short.__cause__)]
    return parts


@pytest.mark.parametrize("size", [None, 3, 64])
@pytest.mark.parametrize("whole", [False, True], ids=["by-piece", "whole"])
@pytest.mark.parametrize("step", [1, 4, 100])
def test_what_is_cut_short_is_cut_short_again(step: int, whole: bool, size: int | None) -> None:
    for end in range(_BODY, len(_CHUNKED) + 1):
        data = _CHUNKED[:end]
        with _again(data, step, whole=whole) as again:
            assert _read(again, size) == _read(_live(data), size), data


@pytest.mark.parametrize(
    "rest",
    [b"what?\r\n", b"-5\r\n", b"3\r\nhello\r\n", b"5\nhello\n0\n\n"],
    ids=["nonsense", "below-zero", "too-long", "no-carriage-return"],
)
def test_a_framing_that_is_wrong_is_wrong_again(rest: bytes) -> None:
    data = _CHUNKED[:_BODY] + b"5\r\nfirst\r\n" + rest

    def read(response: http.client.HTTPResponse) -> Any:
        try:
            return response.read()
        except (http.client.IncompleteRead, ValueError) as error:
            return repr(error)

    with _again(data, 100, whole=False) as again:
        told = read(again)
    assert told == read(_live(data))
    assert isinstance(told, str)


def test_a_chunk_comes_in_the_parts_in_which_it_came() -> None:
    """Before those that are not its end stands how much is missing."""
    live = http.client.HTTPResponse(_Trickle(_CHUNKED, 4))  # type: ignore[arg-type]
    live.begin()
    came = list(body_of(live))
    assert b"".join(came) == b"first0123456789"
    marked = [(piece.left, after) for piece, after in pairwise(came) if isinstance(piece, Partial)]
    assert marked
    assert all(b"first0123456789".find(part) + len(part) + left in (5, 15) for left, part in marked)


def test_a_length_that_is_not_reached() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n12345"
    with pytest.raises(http.client.IncompleteRead) as short:
        list(body_of(_live(data)))
    assert (short.value.partial, short.value.expected) == (b"", 4)


def test_joined_keeps_what_came_before_the_failure() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"one"
        yield b"two"
        raise OSError("gone")

    whole = joined(pieces())
    assert next(whole) == b"onetwo"
    with pytest.raises(OSError, match="gone"):
        next(whole)


def test_other_failures_come_out_of_the_file() -> None:
    head = Head(status=200, headers=(("Content-Length", "9"),))
    response = respond(_reply(head, b"123", error=TimeoutError("timed out")), "GET")
    assert response.read1() == b"123"
    with pytest.raises(TimeoutError):
        response.read1()
    assert response.read1() == b""


@pytest.mark.parametrize(
    "place, target, url",
    [
        (("http", "h", 80), "/a?b", "http://h/a?b"),
        (("https", "h", 443), "/", "https://h/"),
        (("http", "h", 443), "/", "http://h:443/"),
        (("http", "::1", 8080), "/a", "http://[::1]:8080/a"),
        (("http", "h", None), "*", "http://h/*"),
        (("http", "proxy", 3128), "http://h/a", "http://h/a"),
        (("http", "h", 80), "/a?b=http://x/", "http://h/a?b=http://x/"),
    ],
    ids=["plain", "tls", "odd-port", "ipv6", "star", "proxy", "url-in-query"],
)
def test_the_url_of_a_target(place: tuple[str, str, int | None], target: str, url: str) -> None:
    assert target_url(*place, target) == url


class Mocked(http.client.HTTPResponse):
    """As libraries that mock answers make them: what is public of a response, and nothing else."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def read(self, amount: int | None = None) -> bytes:
        return self._body

    def close(self) -> None:
        """There is no connection to close."""


@pytest.mark.parametrize("body", [b"", b"mocked"], ids=["empty", "body"])
def test_an_answer_that_never_came_over_a_connection_is_read_whole(body: bytes) -> None:
    assert b"".join(body_of(Mocked(body))) == body
