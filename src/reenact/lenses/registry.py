"""Registry of all lenses, with functions to detect and read model traffic.

A lens returns None for traffic that it cannot read. Such traffic is recorded and replayed as plain
network traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import msgspec

from reenact.lenses import anthropic, bedrock, google, ollama, openai_chat, openai_responses
from reenact.lenses.content import Content, content_of, refused
from reenact.lenses.endpoints import PATHS, Place, may_ask, place_of
from reenact.lenses.model import Answered, Asked, Message

__all__ = [
    "LENSES",
    "Answered",
    "Asked",
    "Lens",
    "may_ask",
    "messages",
    "read_request",
    "read_response",
    "read_with",
]


class Lens(msgspec.Struct, frozen=True, kw_only=True):
    """API of a provider. ``paths`` are the endings of the paths of its model calls.

    ``asked`` reads a request and can return None. ``messages`` reads the input that ``asked``
    found. ``answered`` reads the body of a reply. They accept any JSON and never raise.
    """

    name: str
    title: str
    paths: tuple[str, ...]
    asked: Callable[[Place, dict[str, Any]], Asked | None]
    messages: Callable[[dict[str, Any]], tuple[Message, ...]]
    answered: Callable[[Content], Answered]


def _lens(module: Any, title: str) -> Lens:
    return Lens(
        name=module.NAME,
        title=title,
        paths=PATHS[module.NAME],
        asked=module.asked,
        messages=module.messages,
        answered=module.answered,
    )


LENSES = (
    _lens(openai_chat, "OpenAI Chat Completions"),
    _lens(openai_responses, "OpenAI Responses"),
    _lens(anthropic, "Anthropic Messages"),
    _lens(google, "Google Gemini"),
    _lens(bedrock, "Amazon Bedrock Converse"),
    _lens(ollama, "Ollama"),
)

_NAMED = {lens.name: lens for lens in LENSES}


def read_request(method: str, url: str, body: Any) -> Asked | None:
    """Read a request with the JSON value ``body``. Never raises.

    Returns None if it is not a model call.
    """
    if not isinstance(body, dict) or not may_ask(method, url):
        return None
    place = place_of(url)
    lens = next((lens for lens in LENSES if place.path.endswith(lens.paths)), None)
    return None if lens is None else _safely(lens.asked, place, body)


def messages(asked: Asked) -> tuple[Message, ...]:
    """Return the messages of a request for display. Never raises."""
    lens = _NAMED.get(asked.lens)
    if lens is None or not isinstance(asked.input, dict):
        return ()
    return _safely(lens.messages, asked.input) or ()


def read_response(asked_lens: str, status: int, content_type: str, body: bytes) -> Answered | None:
    """Read the response to a request that the lens ``asked_lens`` read. Never raises.

    ``body`` has no content codings. A truncated stream results in a partial reply that is not
    ``complete``. Returns None for an unknown lens, and for a body that is not a reply of a model
    API.
    """
    lens = _NAMED.get(asked_lens)
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
