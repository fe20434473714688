"""A payload as one JSON document, which patches, paths and rules are about, and back again.

``/headers`` is an object from the name in small letters to the value, or to the list of values of
a header that is repeated; ``/body`` the value of a JSON body, the string of a text,
``{"$bytes": "<base64>"}``, or null; ``/properties`` the object. An edit keeps the type of the body:
one of another type is said to be so, with ``{"$text": …}``, ``{"$json": …}`` or ``{"$bytes": …}``.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Any, Final

import msgspec

from reenact.errors import UsageError, ValueRefused
from reenact.exchange.headers import check_headers, from_object, to_object
from reenact.exchange.model import Body, Payload
from reenact.exchange.style import Style, print_json, style_of
from reenact.format.canonical import decode, digest_bytes, exact, jcs, quickly

__all__ = ["SECTIONS", "body_value", "check_payload", "digest_of", "from_document", "to_document"]

SECTIONS: Final = ("headers", "body", "properties")
_MARKS: Final = {"$text": "text", "$json": "json", "$bytes": "bytes"}
_PLAIN: Final = frozenset({str, int})
_NO_BODY: Final = Body()
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def to_document(payload: Payload, *, copies: bool = True) -> dict[str, Any]:
    """The document of ``payload``; with ``copies`` nothing in it is shared with the payload's
    properties. Raises :class:`UsageError` for a body that is not what its type says."""
    properties = payload.properties
    return {
        "headers": to_object(payload.headers),
        "body": body_value(payload.body),
        "properties": _copied(properties) if copies else properties,
    }


def body_value(body: Body) -> Any:
    """What stands under ``/body``. Raises :class:`UsageError`."""
    if body.type == "none" or body.clipped is not None:
        return None
    if body.type == "text":
        return body.text
    if body.type == "bytes":
        return {"$bytes": _checked_base64(body.base64)}
    try:
        return decode(body.text.encode())
    except (ValueRefused, UnicodeEncodeError) as error:
        raise UsageError(f"the body is not JSON: {error}", hint="give it the type text") from None


def from_document(document: Any, original: Payload) -> Payload:
    """The payload that ``document`` is an edit of. What was not edited stays as it was, to the
    letter; the order and spelling of headers, and the style of a JSON text, are those of
    ``original``. Raises :class:`UsageError` for what is no document, and for a body of another type
    than the original's, unless it says so; :class:`ValueRefused` for what JSON cannot hold."""
    sections = _sections(document)
    headers = from_object(sections["headers"], original.headers)
    body = _body_of(sections, original)
    declared = next((value for name, value in headers if name.lower() == "content-type"), "")
    if declared != _declared(original):
        body = msgspec.structs.replace(body, content_type=declared)
    made = Payload(headers=headers, body=body, properties=_copied(sections["properties"]))
    check_payload(made)
    return made


def check_payload(payload: Payload) -> None:
    """Raises :class:`UsageError` for what no exchange could have begun with: hostile header names
    and values, a JSON body that is none, properties that JSON cannot hold."""
    check_headers(payload.headers)
    body_value(payload.body)
    try:
        jcs(payload.properties)
    except ValueRefused as error:
        raise UsageError(f"the properties are not JSON: {error}") from None


def digest_of(payload: Payload) -> str:
    """``sha256:`` and the SHA-256 of the canonical JSON of ``payload``, fields that have their
    default left out, however it came about. Raises :class:`ValueRefused`."""
    body = {} if payload.body == _NO_BODY else _without_defaults(payload.body)
    whole = {
        "headers": [list(pair) for pair in payload.headers],
        "body": body,
        "properties": payload.properties,
    }
    stated = {name: value for name, value in whole.items() if value}
    if set(map(type, payload.properties.values())) <= _PLAIN:
        # Nothing but texts and integers, and names in ASCII: there is only one way to write it.
        encoded = quickly(stated)
        if encoded and encoded.isascii():
            return digest_bytes(encoded)
    return digest_bytes(jcs(stated))


def _without_defaults(body: Body) -> dict[str, Any]:
    return {
        name: value
        for name, value in msgspec.to_builtins(body).items()
        if value not in ("", None) and (name, value) != ("type", "none")
    }


def _sections(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise UsageError("the edited payload is no object", hint="headers, body, properties")
    strange = sorted(set(document).difference(SECTIONS))
    if strange:
        raise UsageError(
            f"a payload has no {strange[0][:80]!r}", hint="headers, body and properties"
        )
    sections = {"headers": {}, "properties": {}, **document}
    for name in ("headers", "properties"):
        if not isinstance(sections[name], dict):
            raise UsageError(f"/{name} is no object")
    return sections


def _body_of(sections: dict[str, Any], original: Payload) -> Body:
    before = original.body
    if "body" not in sections:
        return Body(content_type=before.content_type)
    value, was = sections["body"], body_value(before)
    if exact(value) == exact(was):
        return before
    kind = _said_type(value, before, was)
    if kind is not None:
        value = value if kind == "bytes" else next(iter(value.values()))
    elif before.type == "none":
        kind = "text" if isinstance(value, str) else "json"
    else:
        kind = before.type
    return _BUILD[kind](value, before)


def _said_type(value: Any, before: Body, was: Any) -> str | None:
    """The type that ``value`` says it is of. JSON that looked so before says nothing by it."""
    mark = _mark_of(value)
    if mark is None or (before.type == "json" and mark == _mark_of(was)):
        return None
    return _MARKS[mark]


def _mark_of(value: Any) -> str | None:
    if not isinstance(value, dict) or len(value) != 1:
        return None
    name = next(iter(value))
    return name if name in _MARKS else None


def _text_body(value: Any, before: Body) -> Body:
    if not isinstance(value, str):
        raise UsageError(
            "/body is a text, and stays one: what is put there is no string",
            hint='write it as a string, or say that the type changes: {"$json": …}',
        )
    return Body(type="text", text=value, content_type=before.content_type)


def _json_body(value: Any, before: Body) -> Body:
    style = style_of(before.text) if before.type == "json" else Style()
    return Body(type="json", text=print_json(value, style), content_type=before.content_type)


def _bytes_body(value: Any, before: Body) -> Body:
    if _mark_of(value) != "$bytes" or not isinstance(value["$bytes"], str):
        raise UsageError(
            "/body is bytes, and stays so",
            hint='{"$bytes": "<base64>"}; or say that the type changes: {"$text": …}, {"$json": …}',
        )
    content = _checked_base64(value["$bytes"])
    return Body(type="bytes", base64=content, content_type=before.content_type)


_BUILD: Final = {"text": _text_body, "json": _json_body, "bytes": _bytes_body}


def _checked_base64(text: str) -> str:
    try:
        if _BASE64.fullmatch(text) is None:
            raise UsageError("the bytes of /body are not base64")
        b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise UsageError("the bytes of /body are not base64") from None
    return text


def _declared(payload: Payload) -> str:
    found = (value for name, value in payload.headers if name.lower() == "content-type")
    return next(found, "")


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value
