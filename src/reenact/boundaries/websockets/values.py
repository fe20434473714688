"""Values of ``websockets`` as data, and back: headers, answers, close frames, exceptions."""

from __future__ import annotations

from typing import Any

from websockets import exceptions
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import Close
from websockets.http11 import Response

from reenact.boundaries.bodies import Pairs
from reenact.boundaries.websocket import Errors
from reenact.engine.codecs import dump_exception, load_exception
from reenact.format.event import Data

__all__ = ["ClientErrors", "ends", "frames", "pairs", "response"]

_REFUSALS: tuple[type[Any], ...] = tuple(
    getattr(exceptions, name)
    for name in ("InvalidStatus", "InvalidProxyStatus")  # the second came with proxies
    if hasattr(exceptions, name)
)


def response(status: int, reason: str, headers: Any, body: Any) -> Response:
    """The library's own response."""
    known = Headers()
    for key, value in headers:
        known[str(key)] = str(value)
    content = body.encode() if isinstance(body, str) else body
    return Response(status, reason, known, content)


def pairs(headers: Any) -> Pairs:
    """The library's own headers, in order."""
    return tuple((str(key), str(value)) for key, value in headers.raw_items())


def ends(rcvd: Any, sent: Any, rcvd_then_sent: bool | None) -> Data:
    """How a connection was closed: the close frames, and which was first."""
    return {"rcvd": _end(rcvd), "sent": _end(sent), "rcvdThenSent": rcvd_then_sent}


def _end(frame: Any) -> Any:
    return None if frame is None else {"code": int(frame.code), "reason": frame.reason}


def frames(ends: Any) -> tuple[Any, Any, bool | None]:
    """The same as the library tells it."""
    told = ends if isinstance(ends, dict) else {}
    rcvd, sent = _frame(told.get("rcvd")), _frame(told.get("sent"))
    both = rcvd is not None and sent is not None
    return rcvd, sent, bool(told.get("rcvdThenSent")) if both else None


def _frame(end: Any) -> Any:
    if not isinstance(end, dict):
        return None
    code = end.get("code")
    return Close(code if isinstance(code, int) else 1006, str(end.get("reason", "")))


class ClientErrors(Errors):
    """Adds the close frames of a closed connection, and the answer of a server that refused."""

    def dump(self, error: BaseException) -> Data:
        data = dump_exception(error)
        if isinstance(error, ConnectionClosed):
            data["closed"] = ends(error.rcvd, error.sent, error.rcvd_then_sent)
        elif isinstance(error, _REFUSALS):
            response = error.response
            data["answer"] = {
                "status": response.status_code,
                "reason": response.reason_phrase,
                "headers": [list(pair) for pair in pairs(response.headers)],
                "body": _text(response.body),
            }
            if isinstance(response.body, bytearray):  # as the newer versions of the library tell it
                data["answer"]["array"] = True
        return data

    def load(self, data: Any) -> BaseException:
        error = self._own(data)
        if error is None:
            return load_exception(data)
        if isinstance(data.get("cause"), dict):
            error.__cause__ = load_exception(data["cause"])
        return error

    def _own(self, data: Any) -> BaseException | None:
        if not isinstance(data, dict):
            return None
        name = str(data.get("class", "")).rpartition(".")[2]
        kind = getattr(exceptions, name, None)
        if not isinstance(kind, type):
            return None
        error: BaseException | None = None
        answer = data.get("answer")
        if "closed" in data and issubclass(kind, ConnectionClosed):
            error = kind(*frames(data["closed"]))
        elif isinstance(answer, dict) and issubclass(kind, _REFUSALS):
            error = kind(_answer(answer))
        return error


def _answer(answer: Data) -> Any:
    pairs = [pair for pair in answer.get("headers") or () if len(pair) == 2]
    status = answer.get("status")
    number = status if isinstance(status, int) else 0
    made = response(number, str(answer.get("reason", "")), pairs, answer.get("body"))
    if answer.get("array") is True and isinstance(made.body, bytes):
        made.body = bytearray(made.body)
    return made


def _text(body: Any) -> str | bytes | None:
    if body is None:
        return None
    try:
        return bytes(body).decode()
    except UnicodeDecodeError:
        return bytes(body)
