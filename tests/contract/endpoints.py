"""What the contract's server can do to a client."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from http import HTTPStatus

from tests.contract.server import Exchange, Gone, Handler

__all__ = ["ENDPOINTS", "SSE", "TEXT"]

TEXT = "Größe 蟹 " * 40
"""Some text that is longer when it is UTF-8, and shorter when it is compressed."""

SSE = (
    b"event: start\ndata: {}\n\n",
    b": \n\n",  # says nothing, and keeps the connection alive
    b"data: caf\xc3",  # ends inside a character
    b"\xa9\n\ndata: ",
    b"last\n\n",
    b"\n",
)
"""The pieces of ``/sse``, cut where servers do cut."""

_JSON = ("Content-Type", "application/json")
_CHUNKED = ("Transfer-Encoding", "chunked")


def _dumped(exchange: Exchange, **more: object) -> bytes:
    return json.dumps({"n": exchange.number, "target": exchange.asked.target, **more}).encode()


# Answers that come whole


def _json(exchange: Exchange) -> None:
    exchange.answer("200 OK", _dumped(exchange), _JSON)


def _echo(exchange: Exchange) -> None:
    asked = exchange.asked
    said = [[name.lower(), value] for name, value in asked.headers]
    body = asked.body.decode("latin-1")
    exchange.answer("200 OK", _dumped(exchange, method=asked.method, headers=said, body=body))


def _status(exchange: Exchange) -> None:
    """``/status/429``: that status, with a reason of our own."""
    code = int(exchange.path.rsplit("/", 1)[1])
    exchange.answer(f"{code} Because {code}", _dumped(exchange), _JSON, ("Retry-After", "1"))


def _bare(exchange: Exchange) -> None:
    """``/bare/204``: a head and no body at all."""
    code = int(exchange.path.rsplit("/", 1)[1])
    length = [("Content-Length", "0")] if code == HTTPStatus.OK else []
    exchange.head(f"{code} {HTTPStatus(code).phrase}", ("ETag", '"x"'), *length)


def _headers(exchange: Exchange) -> None:
    exchange.answer(
        "200 Fine By Me",
        b"{}",
        ("sEt-CoOkIe", f"first={exchange.number}; Path=/"),
        ("X-A", "one"),
        ("x-Lower-And-UPPER", "Mixed"),
        ("X-A", "two"),
        ("Set-Cookie", "second=b; Path=/"),
        ("X-Latin", "caf\xe9"),
        ("X-Empty", ""),
    )


def _binary(exchange: Exchange) -> None:
    """A megabyte of every byte there is."""
    body = exchange.number.encode() + bytes(range(256)) * 4096
    exchange.answer("200 OK", body, ("Content-Type", "application/octet-stream"))


def _encoded(exchange: Exchange) -> None:
    """``/encoded/gzip``, ``/encoded/deflate``; ``?pieces=1`` sends it in three chunks."""
    coding = exchange.path.rsplit("/", 1)[1]
    plain = f"{exchange.number} {TEXT}".encode()
    packed = gzip.compress(plain, mtime=0) if coding == "gzip" else zlib.compress(plain)
    kind = ("Content-Type", "text/plain; charset=utf-8")
    if not exchange.query("pieces"):
        exchange.answer("200 OK", packed, kind, ("Content-Encoding", coding))
        return
    exchange.head("200 OK", kind, ("Content-Encoding", coding), _CHUNKED)
    for start in range(0, len(packed), 40):
        exchange.chunk(packed[start : start + 40])
    exchange.send(b"0\r\n\r\n")


def _old(exchange: Exchange) -> None:
    """HTTP/1.0: no length, the end of the connection is the end of the body; and no reason."""
    exchange.head("200 ", ("Content-Type", "text/plain"), version="HTTP/1.0")
    exchange.send(f"old {exchange.number}".encode())
    raise Gone


def _close(exchange: Exchange) -> None:
    exchange.answer("200 OK", _dumped(exchange), _JSON, ("Connection", "close"))
    raise Gone


def _trailers(exchange: Exchange) -> None:
    exchange.head("200 OK", ("Trailer", "X-Sum"), _CHUNKED)
    exchange.chunk(f"body {exchange.number}".encode())
    exchange.send(b"0\r\nX-Sum: 12\r\n\r\n")


def _redirect(exchange: Exchange) -> None:
    """``/redirect/302``: that status, to ``/echo``, by a relative address."""
    code = int(exchange.path.rsplit("/", 1)[1])
    to = ("Location", f"/echo?by={code}")
    exchange.answer(f"{code} {HTTPStatus(code).phrase}", b"moved", to)


def _chain(exchange: Exchange) -> None:
    """``/chain/2`` leads to ``/chain/1``, and that to ``/json``."""
    left = int(exchange.path.rsplit("/", 1)[1]) - 1
    to = ("Location", f"{left}?from={exchange.number}" if left else "../json")
    exchange.answer("302 Found", b"", to)


def _poll(exchange: Exchange) -> None:
    """Ready when it is asked for the third time."""
    state = "ready" if exchange.asked.number >= 3 else "pending"
    exchange.answer("200 OK", _dumped(exchange, state=state), _JSON)


# Answers that come piece by piece


def _sse(exchange: Exchange) -> None:
    """Each piece after the first is sent when the gate has been opened once more."""
    exchange.head("200 OK", ("Content-Type", "text/event-stream"), _CHUNKED)
    for number, piece in enumerate((f"id: {exchange.number}\n".encode(), *SSE)):
        if number:
            exchange.gate.passed()
        exchange.chunk(piece)
    exchange.gate.passed()
    exchange.send(b"0\r\n\r\n")


def _lines(exchange: Exchange) -> None:
    """``/lines?count=5``: as fast as they go."""
    exchange.head("200 OK", ("Content-Type", "application/x-ndjson"), _CHUNKED)
    for number in range(int(exchange.query("count", "5"))):
        exchange.chunk(b'{"line": %d, "n": "%b"}\n' % (number, exchange.number.encode()))
    exchange.send(b"0\r\n\r\n")


def _endless(exchange: Exchange) -> None:
    exchange.head("200 OK", ("Content-Type", "text/event-stream"), _CHUNKED)
    for number in _count():
        exchange.chunk(f"data: {number} of {exchange.number}\n\n".encode())
        exchange.gate.passed()


def _count() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


# Failures


def _drop(exchange: Exchange) -> None:
    """``/drop/head``, ``/drop/chunked``, ``/drop/length``: hang up before, or in the body."""
    where = exchange.path.rsplit("/", 1)[1]
    if where == "chunked":
        exchange.head("200 OK", _CHUNKED)
        exchange.chunk(f"one {exchange.number}".encode())
        exchange.gate.passed()
    elif where == "length":
        exchange.head("200 OK", ("Content-Length", "100"))
        exchange.send(f"one {exchange.number}".encode())
        exchange.gate.passed()
    raise Gone


def _garbage(exchange: Exchange) -> None:
    exchange.send(b"this is not HTTP\r\n\r\n")
    raise Gone


def _slow(exchange: Exchange) -> None:
    """``/slow`` never answers; ``/slow/body`` stops after the first piece."""
    if exchange.path.endswith("/body"):
        exchange.head("200 OK", _CHUNKED)
        exchange.chunk(f"one {exchange.number}".encode())
    exchange.never()


# Several at once


def _mixed(exchange: Exchange) -> None:
    """``/mixed?of=8``: when all eight are there, answers the last one first."""
    of = int(exchange.query("of"))
    here = exchange.act.notes.setdefault("here", [])
    done = exchange.act.notes.setdefault("done", [])
    exchange.gate.until(lambda: len(here) == of, lambda: here.append(exchange.number))
    order = sorted(here, reverse=True)
    exchange.gate.until(lambda: len(done) == order.index(exchange.number), lambda: None)
    exchange.answer("200 OK", _dumped(exchange), _JSON)
    exchange.gate.until(lambda: True, lambda: done.append(exchange.number))


def _race(exchange: Exchange) -> None:
    """``/race/lost`` waits until ``/race/won`` has been answered, and then for the gate."""
    won = exchange.act.notes.setdefault("won", [])
    if exchange.path.endswith("/lost"):
        exchange.gate.until(lambda: bool(won), lambda: None)
        exchange.gate.passed()
        exchange.answer("200 OK", _dumped(exchange), _JSON)
    else:
        exchange.answer("200 OK", _dumped(exchange), _JSON)
        exchange.gate.until(lambda: True, lambda: won.append(exchange.number))


ENDPOINTS: dict[str, Handler] = {
    "/bare": _bare,
    "/binary": _binary,
    "/chain": _chain,
    "/close": _close,
    "/drop": _drop,
    "/echo": _echo,
    "/encoded": _encoded,
    "/endless": _endless,
    "/garbage": _garbage,
    "/headers": _headers,
    "/json": _json,
    "/lines": _lines,
    "/mixed": _mixed,
    "/old": _old,
    "/poll": _poll,
    "/race": _race,
    "/redirect": _redirect,
    "/slow": _slow,
    "/sse": _sse,
    "/status": _status,
    "/trailers": _trailers,
}
