"""Reaction to a failed model call: retry, use a fallback model, compact the conversation, or stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from reenact.engine.codecs import RecordedFailure

__all__ = ["Backoff", "Classify", "Failure", "classify", "error_class", "error_text", "retry_after"]

Failure = Literal["retriable", "unavailable", "context_overflow", "fatal"]
"""Kind of a failure.

``retriable``: a retry can succeed. ``unavailable``: only a different model can succeed.
"""

Classify = Callable[[Exception], Failure]

_RETRIABLE: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_UNAVAILABLE: Final = frozenset({401, 402, 403, 404})

_OVERFLOW: Final = (
    "context_length_exceeded",
    "context length",
    "context window",
    "prompt is too long",
    "input is too long",
    "too many input tokens",
    "exceeds the maximum number of tokens",
)
"""Error texts of providers for a conversation that is too long."""

_LOOKED_AT = 10_000

_BROKEN: Final = ("Connect", "Timeout", "RemoteProtocol", "ReadError", "ServerDisconnected")
"""In the names of exceptions of clients whose connection broke."""


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Number of retries of a model call, and the delay before each.

    ``delay`` is doubled for each retry, up to ``most`` seconds. A longer
    ``Retry-After`` of the server is used instead, also up to ``most``.
    """

    retries: int = 2
    delay: float = 0.5
    most: float = 30.0

    def wait(self, retry: int, asked: float | None) -> float:
        """Return the seconds to wait before the retry ``retry``, counted from 0."""
        return min(self.most, max(self.delay * 2.0**retry, asked or 0.0))


def classify(error: Exception) -> Failure:
    """Classify ``error`` by its status code, which clients of all providers set, by error texts for
    a conversation that is too long, and by the name of the exception."""
    status = _status(error)
    if status in (None, 400, 413, 422) and _overflows(error):
        return "context_overflow"
    if status in _RETRIABLE:
        return "retriable"
    if status in _UNAVAILABLE:
        return "unavailable"
    if status is None and _is_broken(error):
        return "retriable"
    return "fatal"


def _status(error: Exception) -> int | None:
    for owner in (error, getattr(error, "response", None)):
        for name in ("status_code", "status", "code"):
            found = getattr(owner, name, None)
            if isinstance(found, int) and 100 <= found <= 599:
                return found
    return None


def _overflows(error: Exception) -> bool:
    said = f"{getattr(error, 'code', '')} {getattr(error, 'body', '')} {_body(error)} {error}"
    return any(words in said.lower() for words in _OVERFLOW)


def _body(error: Exception) -> str:
    """Return the text of the server's response, if the client keeps it."""
    try:
        return str(getattr(getattr(error, "response", None), "text", ""))[:_LOOKED_AT]
    except Exception:  # noqa: BLE001 - clients raise various errors for an unread stream
        return ""


def _is_broken(error: Exception) -> bool:
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    names = [kind.__name__ for kind in type(error).__mro__]
    if isinstance(error, RecordedFailure):
        names.append(error_class(error))
    return any(part in name for name in names for part in _BROKEN)


def retry_after(error: Exception) -> float | None:
    """Return the ``Retry-After`` header of the server if it is a number of seconds."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    try:
        return max(0.0, float(headers.get("retry-after")))
    except (AttributeError, TypeError, ValueError):
        return None


def error_class(error: BaseException) -> str:
    """Return the class name of ``error``, or the recorded one if the class does not exist here."""
    if isinstance(error, RecordedFailure):
        return str(error.fields.get("error_class", "")).rpartition(".")[2]
    return type(error).__name__


def error_text(error: BaseException) -> str:
    """Return the error text for a model, such as ``ValueError: no such day``.

    It is the same in every replay.
    """
    if isinstance(error, RecordedFailure):
        whole = str(error.fields.get("error_class", ""))
        return error.message.replace(whole, whole.rpartition(".")[2], 1)
    words = str(error)
    return f"{error_class(error)}: {words}" if words else error_class(error)
