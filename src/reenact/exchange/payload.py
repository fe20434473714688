"""Payloads: headers, typed bodies, and the JSON document that patches and rules apply to.

``/headers`` is an object from the lower-case name to the value, or to the list of values of a
repeated header. ``/body`` is the value of a JSON body, the string of a text body,
``{"$bytes": "<base64>"}``, or null. ``/properties`` is the object of properties. An edit keeps the
type of the body, unless the new value states a type: ``{"$text": …}``, ``{"$json": …}`` or
``{"$bytes": …}``.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from reenact.errors import UsageError, ValueRefused
from reenact.exchange.model import Body, Header, Payload
from reenact.format.canonical import decode, digest_bytes, exact, jcs, quickly

__all__ = [
    "SECTIONS",
    "JsonStyle",
    "body_bytes",
    "body_value",
    "check_headers",
    "check_payload",
    "clipped_body",
    "detect_style",
    "find_header",
    "format_json",
    "from_document",
    "headers_from_object",
    "headers_to_object",
    "make_body",
    "payload_digest",
    "to_document",
]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def find_header(headers: Iterable[Header], name: str) -> str:
    """Return the first value of ``name``, given in lower case; empty if there is none."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return ""


def headers_to_object(headers: Iterable[Header]) -> dict[str, str | list[str]]:
    """Return an object with lower-case names, in the order of their first occurrence."""
    headers = tuple(headers)
    single: dict[str, str | list[str]] = {name.lower(): value for name, value in headers}
    if len(single) == len(headers):
        return single
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def headers_from_object(edited: dict[str, Any], original: Sequence[Header]) -> tuple[Header, ...]:
    """Return ``edited`` in the order and spelling of ``original``. Additional values follow the
    last one of their name; new names come last. Raises :class:`UsageError`."""
    values = _lowered(edited)
    last = {name.lower(): index for index, (name, _) in enumerate(original)}
    spelled: list[Header] = []
    for index, (name, _) in enumerate(original):
        rest = values.get(name.lower(), [])
        count = len(rest) if last[name.lower()] == index else min(1, len(rest))
        spelled += ((name, rest.pop(0)) for _ in range(count))
    for name, rest in values.items():
        spelled += ((name, value) for value in rest)
    return tuple(spelled)


def _lowered(edited: dict[str, Any]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in edited.items():
        if name.lower() in values:
            raise UsageError(
                f"/headers has {name[:80]!r} twice, in other letters",
                hint="write names in small letters",
            )
        values[name.lower()] = list(_values(name, value))
    return values


def _values(name: str, value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, str):
            raise UsageError(f"/headers/{name[:80]} is neither a string nor a list of strings")
        yield one


def check_headers(headers: Iterable[Header]) -> None:
    """Raise :class:`UsageError` for an invalid header name or value."""
    for name, value in headers:
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name[:80]!r} is not a valid header name")
        if _UNFIT.search(value):
            raise UsageError(f"the header {name[:80]} has a value with control characters")


_TEXTS = ("application/x-www-form-urlencoded", "application/xml", "application/graphql")


def make_body(data: bytes, content_type: str = "") -> Body:
    """Return ``data`` as a typed body: JSON with its exact text, other UTF-8 text, or bytes.
    Inverse of :func:`body_bytes`."""
    shown = content_type[:4_096]
    if not data:
        return Body(content_type=shown)
    media = content_type.partition(";")[0].strip().lower()
    is_json = media == "application/json" or media.endswith("+json")
    if is_json or media.startswith("text/") or media in _TEXTS or media.endswith("+xml"):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass  # in another encoding: bytes
        else:
            kind = "json" if is_json and _is_json(data) else "text"
            return Body(type="json" if kind == "json" else "text", text=text, content_type=shown)
    return Body(type="bytes", base64=b64encode(data).decode(), content_type=shown)


def clipped_body(size: int, content_type: str = "") -> Body:
    """Return a body of ``size`` bytes that is not stored."""
    return Body(type="bytes", content_type=content_type[:4_096], clipped=size)


def body_bytes(body: Body) -> bytes:
    """Return the bytes of a body."""
    return b64decode(body.base64) if body.type == "bytes" else body.text.encode()


def _is_json(data: bytes) -> bool:
    """Return whether ``data`` is strict JSON. An object with a repeated name is stored as text."""
    try:
        decode(data)
    except ValueRefused:
        return False
    return True


_INDENTED = re.compile(r"[\[{]\r?\n([ \t]+)\S")
_IN_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')


class JsonStyle(msgspec.Struct, frozen=True):
    """Formatting of a JSON text. ``indent`` is the indentation of one level, None for a single
    line."""

    indent: str | None = None
    item: str = ","
    colon: str = ":"
    ascii_only: bool = False
    end: str = ""


def detect_style(text: str) -> JsonStyle:
    """Return the formatting of a JSON text. Inconsistent formatting is approximated."""
    bare = _IN_STRINGS.sub('""', text)
    found = _INDENTED.match(bare.lstrip())
    return JsonStyle(
        indent=found.group(1) if found else None,
        item=", " if found is None and ", " in bare else ",",
        colon=": "
        if '": ' in bare or (found is None and '":' not in bare and ", " in bare)
        else ":",
        ascii_only=text.isascii() and "\\u" in text,
        end=text[len(text.rstrip()) :],
    )


def format_json(value: Any, style: JsonStyle) -> str:
    """Return ``value`` as JSON in ``style``."""
    text = json.dumps(
        value,
        ensure_ascii=style.ascii_only,
        indent=style.indent,
        separators=(style.item, style.colon),
    )
    return text + style.end


SECTIONS: Final = ("headers", "body", "properties")
_MARKS: Final = {"$text": "text", "$json": "json", "$bytes": "bytes"}
_PLAIN: Final = frozenset({str, int})
_NO_BODY: Final = Body()
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def to_document(payload: Payload, *, copies: bool = True) -> dict[str, Any]:
    """Return the document of ``payload``. With ``copies``, it shares no properties with the
    payload. Raises :class:`UsageError` if the body does not match its type."""
    properties = payload.properties
    return {
        "headers": headers_to_object(payload.headers),
        "body": body_value(payload.body),
        "properties": _copied(properties) if copies else properties,
    }


def body_value(body: Body) -> Any:
    """Return the value of ``/body``. Raises :class:`UsageError`."""
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
    """Return the payload of an edited ``document``.

    Unchanged parts stay identical. Headers keep the order and spelling, and JSON the formatting
    of ``original``. Raises :class:`UsageError` for an invalid document and for a body whose
    type changes without a mark, :class:`ValueRefused` for values that JSON cannot hold.
    """
    sections = _sections(document)
    headers = headers_from_object(sections["headers"], original.headers)
    body = _body_of(sections, original)
    declared = next((value for name, value in headers if name.lower() == "content-type"), "")
    if declared != _declared(original):
        body = msgspec.structs.replace(body, content_type=declared)
    made = Payload(headers=headers, body=body, properties=_copied(sections["properties"]))
    check_payload(made)
    return made


def check_payload(payload: Payload) -> None:
    """Raise :class:`UsageError` for a payload that cannot start an exchange: invalid headers, an
    invalid JSON body, or properties that JSON cannot hold."""
    check_headers(payload.headers)
    body_value(payload.body)
    try:
        jcs(payload.properties)
    except ValueRefused as error:
        raise UsageError(f"the properties are not JSON: {error}") from None


def payload_digest(payload: Payload) -> str:
    """Return ``sha256:`` and the SHA-256 of the canonical JSON of ``payload`` without default
    values. Raises :class:`ValueRefused`."""
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
        raise UsageError(
            "the edited payload is not an object",
            hint="use an object with headers, body and properties",
        )
    strange = sorted(set(document).difference(SECTIONS))
    if strange:
        raise UsageError(
            f"a payload has no {strange[0][:80]!r}", hint="headers, body and properties"
        )
    sections = {"headers": {}, "properties": {}, **document}
    for name in ("headers", "properties"):
        if not isinstance(sections[name], dict):
            raise UsageError(f"/{name} is not an object")
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
    """Return the type that ``value`` states with a mark. A JSON body that looked like a mark before
    states none."""
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
            "/body is text, so its new value must be a string",
            hint='write a string, or change the type explicitly: {"$json": …}',
        )
    return Body(type="text", text=value, content_type=before.content_type)


def _json_body(value: Any, before: Body) -> Body:
    style = detect_style(before.text) if before.type == "json" else JsonStyle()
    return Body(type="json", text=format_json(value, style), content_type=before.content_type)


def _bytes_body(value: Any, before: Body) -> Body:
    if _mark_of(value) != "$bytes" or not isinstance(value["$bytes"], str):
        raise UsageError(
            "/body is bytes, so its new value must be bytes",
            hint='write {"$bytes": "<base64>"}, or change the type: {"$text": …}, {"$json": …}',
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
