"""Requests that are read along while somebody sends them."""

from __future__ import annotations

import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.boundaries.http.http1_messages import Outgoing

_SIZED = b"POST /a HTTP/1.1\r\nHost: h\r\nX-Two: 1\r\n\t2\r\nContent-Length: 5\r\n\r\nhello"
_CHUNKED = (
    b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\nA;x=1\r\n0\r\n\r\n12345\r\n0\r\n\r\n"
)


def _sent(*parts: bytes) -> Outgoing:
    sent = Outgoing()
    for part in parts:
        sent.add(part)
    return sent


@pytest.mark.parametrize(
    "data, body",
    [(_SIZED, b"hello"), (_CHUNKED, b"abc0\r\n\r\n12345")],
    ids=["sized", "chunked"],
)
@given(cuts=st.sets(st.integers(1, 90), max_size=6))
def test_it_does_not_matter_how_it_is_cut(data: bytes, body: bytes, cuts: set[int]) -> None:
    ends = sorted(cut for cut in cuts if cut < len(data))
    parts = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    sent = Outgoing()
    for part in parts[:-1]:
        sent.add(part)
        assert not sent.is_complete
    sent.add(parts[-1])
    assert sent.is_complete
    assert (sent.body, b"".join(sent.parts)) == (body, data)


def test_the_head_is_read() -> None:
    sent = _sent(_SIZED)
    assert (sent.method, sent.target) == ("POST", "/a")
    assert sent.headers == (("Host", "h"), ("X-Two", "1\r\n\t2"), ("Content-Length", "5"))


@pytest.mark.parametrize(
    "head, complete",
    [
        (b"GET / HTTP/1.1\r\n\r\n", True),
        (b"DELETE / HTTP/1.1\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nHost: h\r\n", False),
    ],
    ids=["get", "delete", "empty", "unannounced", "half-a-head"],
)
def test_when_it_is_complete(head: bytes, complete: bool) -> None:
    assert _sent(head).is_complete == complete


def test_what_is_no_chunk_is_taken_as_it_is() -> None:
    sent = _sent(
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"2\r\nab\r\n", b"zzz\r\n"
    )
    assert not sent.is_complete
    assert sent.body == b"abzzz\r\n"


def test_bytes_of_any_kind() -> None:
    sent = _sent(b"PUT / HTTP/1.1\r\nContent-Length: 6\r\n\r\n")
    sent.add(bytearray(b"ab"))
    sent.add(array.array("H", [0x6363, 0x6464]))
    assert (sent.body, sent.is_complete) == (b"abccdd", True)
    with pytest.raises(TypeError):
        sent.add("text")
