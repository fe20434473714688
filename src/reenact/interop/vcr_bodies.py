"""Every way in which tools of the VCR family have written a body."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from typing import Any

from reenact.interop.foreign import damaged
from reenact.interop.yaml_documents import Unquoted

__all__ = ["body_bytes", "is_value", "message_body"]

_BASE64 = ("base64_string", "b64")
_SHAPES = frozenset({"string", *_BASE64})
_MOST_VALUES = 1_000_000


def message_body(message: dict[str, Any], place: str) -> bytes:
    """The body of a request or a response. Some serializers keep what it says, as ``parsed_body``;
    older stubs of httpx keep it as ``content``."""
    if "parsed_body" in message:
        return _as_json(message["parsed_body"], f"{place}.parsed_body")
    if "content" in message:
        return body_bytes(message["content"], f"{place}.content")
    return body_bytes(message.get("body"), f"{place}.body")


def is_value(message: dict[str, Any]) -> bool:
    """Is the body kept by what it says, and not by its bytes?"""
    body = message.get("body")
    mapped = isinstance(body, dict) and bool(body) and not _SHAPES & body.keys()
    return mapped or "parsed_body" in message


def body_bytes(value: Any, place: str) -> bytes:
    """The bytes of a body. Raises :class:`RecordingDamaged` that names ``place``.

    Text, bytes, nothing, pieces in a list; a mapping with ``string``, or with ``base64_string`` or
    ``b64``; any other mapping is a value that was sent as JSON.
    """
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, list):
        return b"".join(_piece(one, place) for one in value)
    if isinstance(value, dict):
        return _mapped(value, place)
    return str(value).encode()


def _piece(value: Any, place: str) -> bytes:
    if isinstance(value, (bytes, str)):
        return body_bytes(value, place)
    raise damaged("a piece is neither text nor bytes", place)


def _mapped(value: dict[str, Any], place: str) -> bytes:
    for name in _BASE64:
        if isinstance(value.get(name), (str, bytes)):
            return _decoded(value[name], place)
    if "string" in value:
        given = value["string"]
        if isinstance(given, dict):
            raise damaged("the string is a mapping", place)
        return body_bytes(given, place)
    if not value:
        return b""
    return _as_json(value, place)


def _decoded(text: str | bytes, place: str) -> bytes:
    try:
        return b64decode(text)
    except (binascii.Error, ValueError):
        raise damaged("it is not base64", place) from None


def _as_json(value: Any, place: str) -> bytes:
    _check_values(value, place)
    try:
        text = json.dumps(_meant(value), ensure_ascii=False)
        return text.encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        raise damaged("it is a value that JSON cannot hold", place) from None


def _meant(value: Any) -> Any:
    """With numbers and truth values that YAML has as text."""
    if isinstance(value, dict):
        return {str(key): _meant(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_meant(item) for item in value]
    return value.value() if isinstance(value, Unquoted) else value


def _check_values(value: Any, place: str) -> None:
    """A few aliases can stand for gigabytes, or for no end at all."""
    left = _MOST_VALUES
    under = [value]
    while under:
        one = under.pop()
        left -= 1
        if left < 0:
            raise damaged("it has too many values, or refers to itself", place)
        if isinstance(one, dict):
            under += one.values()
        elif isinstance(one, list):
            under += one
