"""Answers as bytes: what http.client makes of ours is what it makes of a server's."""

from __future__ import annotations

import http.client
import io
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.boundaries.http import Head, Reply
from reenact.boundaries.http_client.framing import (
    body_of,
    file_of,
    head_of,
    joined,
    respond,
    target_url,
)


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


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"a\r\n0123",
        b"what?\r\n",
        b"5;x=1\r\nabcde\r\n",
        b"5\r\nabcde\r\n0\r\nX-Sum: 1\r\n\r\n",
    ],
    ids=["between", "inside", "nonsense", "extended", "trailers"],
)
def test_what_is_cut_short_is_cut_short_again(rest: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = head + b"5\r\nfirst\r\n" + rest

    def read(response: http.client.HTTPResponse) -> Any:
        try:
            return response.read()
        except http.client.IncompleteRead as short:
            return repr(short), short.partial, short.expected

    pieces: list[bytes] = []
    error = None
    try:
        pieces.extend(body_of(_live(data)))
    except http.client.IncompleteRead as short:
        error = short
    with respond(_reply(head_of(_live(data)), *pieces, error=error), "GET") as again:
        assert read(again) == read(_live(data))


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
