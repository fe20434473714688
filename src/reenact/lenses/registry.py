"""Functions that read model traffic with the lens of its API.

A lens returns None for traffic that it cannot read. Such traffic is recorded and replayed as plain
network traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from reenact.lenses.content import content_of, refused
from reenact.lenses.endpoints import Lens, lens_named, lens_of, may_ask, place_of
from reenact.lenses.model import Answered, Asked, Message

__all__ = ["messages", "read_request", "read_response", "read_with"]


def read_request(method: str, url: str, body: Any) -> Asked | None:
    """Read a request with the JSON value ``body``. Never raises.

    Returns None if it is not a model call.
    """
    if not isinstance(body, dict) or not may_ask(method, url):
        return None
    place = place_of(url)
    lens = lens_of(place.path)
    return None if lens is None else _safely(lens.asked, place, body)


def messages(asked: Asked) -> tuple[Message, ...]:
    """Return the messages of a request for display. Never raises."""
    lens = lens_named(asked.lens)
    if lens is None or not isinstance(asked.input, dict):
        return ()
    return _safely(lens.messages, asked.input) or ()


def read_response(asked_lens: str, status: int, content_type: str, body: bytes) -> Answered | None:
    """Read the response to a request that the lens ``asked_lens`` read. Never raises.

    ``body`` has no content codings. A truncated stream results in a partial reply that is not
    ``complete``. Returns None for an unknown lens, and for a body that is not a reply of a model
    API.
    """
    lens = lens_named(asked_lens)
    return None if lens is None else _safely(read_with, lens, status, content_type, body)


def read_with(lens: Lens, status: int, content_type: str, body: bytes) -> Answered | None:
    """Read a response with ``lens``. It can raise, unlike :func:`read_response`."""
    content = content_of(content_type, body)
    if status >= 400:
        return Answered(error=refused(status, content))
    return None if content is None else lens.answered(content)


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def _safely(
    read: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Result | None:
    """Call ``read`` and return None for an exception, because a faulty lens must not affect the
    recorded program."""
    try:
        return read(*args, **kwargs)
    except Exception:  # noqa: BLE001 - the bytes are recorded and replayed in any case
        return None
