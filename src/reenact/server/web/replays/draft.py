"""Edited payload as form fields, with the position of each syntax error.

A section whose fields are unchanged keeps its recorded bytes, because browsers normalize line breaks.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from reenact.errors import ReenactError, UsageError
from reenact.exchange.model import Body, BodyType, Payload
from reenact.exchange.payload import body_value, check_headers, check_payload, to_document
from reenact.exchange.payload_edits import Op, diff_documents, edit_payload, to_patch
from reenact.format.canonical import MAX_DEPTH
from reenact.server.web.components.formatting import pretty
from reenact.server.web.components.forms import Form

__all__ = [
    "TYPES",
    "Draft",
    "Mistake",
    "SyntaxMistake",
    "api_edit",
    "draft_of",
    "find_base64_mistake",
    "find_json_mistake",
    "payload_of",
    "position_text",
    "read_draft",
]

TYPES: Final[tuple[BodyType, ...]] = ("none", "json", "text", "bytes")
Field = Literal["headers", "body", "properties"]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Texts with line feeds. ``body`` is the text, or the base64 of bytes."""

    headers: tuple[tuple[str, str], ...] = ()
    body_type: BodyType = "none"
    body: str = ""
    properties: str = "{}"


class Mistake(msgspec.Struct, frozen=True):
    """Invalid value in a form.

    ``line`` and ``column`` start at 1; 0 means no position. A header has its number, without
    empty headers, and no column.
    """

    field: Field
    message: str
    line: int = 0
    column: int = 0


def position_text(one: Mistake) -> str:
    """Return the position in the field as text; empty if unknown."""
    if one.line and not one.column:
        return f"number {one.line}"
    return f"line {one.line}, column {one.column}" if one.line else ""


def draft_of(payload: Payload) -> Draft:
    """Return ``payload`` as the initial fields of a form, with line feeds."""
    body = payload.body
    text = body.base64 if body.type == "bytes" else body.text
    return Draft(
        headers=payload.headers,
        body_type=body.type,
        body=_lines(text),
        properties=pretty(payload.properties),
    )


def read_draft(form: Form) -> Draft:
    """Read a draft from the form. A header with an empty name and value is ignored."""
    pairs = zip(form.many("header-name"), form.many("header-value"), strict=False)
    said = form.one("body-type")
    return Draft(
        headers=tuple((name.strip(), value) for name, value in pairs if name.strip() or value),
        body_type=next((kind for kind in TYPES if kind == said), "none"),
        body=_lines(form.one("body")),
        properties=_lines(form.one("properties")),
    )


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def payload_of(draft: Draft, start: Payload) -> tuple[Payload | None, tuple[Mistake, ...]]:
    """Return the edited payload, or None and the mistakes."""
    recorded = draft_of(start)
    mistakes: list[Mistake] = []
    sections: dict[str, Any] = {}
    if draft.headers != recorded.headers:
        mistakes += _check_headers(draft.headers)
        sections["headers"] = draft.headers
    if (draft.body_type, draft.body) != (recorded.body_type, recorded.body):
        if draft.body_type in _SLIPS:
            mistakes += _check("body", draft.body, _SLIPS[draft.body_type])
        sections["body"] = _body(draft, start.body)
    if draft.properties != recorded.properties:
        found = [*_check("properties", draft.properties, find_json_mistake)]
        mistakes += found
        if not found:
            sections["properties"] = json.loads(draft.properties)
            if not isinstance(sections["properties"], dict):
                mistakes.append(Mistake("properties", "the properties are a JSON object"))
    if mistakes:
        return None, tuple(mistakes)
    return _made(start, sections)


def _made(start: Payload, sections: dict[str, Any]) -> tuple[Payload | None, tuple[Mistake, ...]]:
    made: Payload = msgspec.structs.replace(start, **sections)
    for field in ("headers", "body", "properties"):
        if field in sections:
            one: Payload = msgspec.structs.replace(Payload(), **{field: sections[field]})
            try:
                check_payload(one)
            except ReenactError as error:
                return None, (Mistake(field, error.message),)
    return made, ()


def _check_headers(headers: Sequence[tuple[str, str]]) -> Iterator[Mistake]:
    for number, header in enumerate(headers, 1):
        try:
            check_headers([header])
        except ReenactError as error:
            message = error.message if header[0] else "this value has no name"
            yield Mistake("headers", message, number)


def _check(
    field: Field, text: str, slip_in: Callable[[str], SyntaxMistake | None]
) -> Iterator[Mistake]:
    slip = slip_in(text)
    if slip is not None:
        before = text[: slip.at].rpartition("\n")
        line = text.count("\n", 0, slip.at) + 1
        yield Mistake(field, slip.message, line, len(before[2]) + 1)


def _body(draft: Draft, before: Body) -> Body:
    kind, text = draft.body_type, draft.body
    if kind == "none":
        return Body(content_type=before.content_type)
    if kind == "bytes":
        return Body(type=kind, base64="".join(text.split()), content_type=before.content_type)
    if "\r\n" in before.text:
        text = text.replace("\n", "\r\n")
    return Body(type=kind, text=text, content_type=before.content_type)


def api_edit(start: Payload, made: Payload) -> dict[str, Any]:
    """Return the edit as the API expects it: a patch if it is exact, otherwise complete sections.

    Empty without an edit.
    """
    if made == start:
        return {}
    for ops in _patches(start, made):
        try:
            if edit_payload(start, ops) == made:
                return {"patch": to_patch(ops)}
        except ReenactError:
            continue
    changed = {
        name: msgspec.to_builtins(getattr(made, name))
        for name in ("headers", "body", "properties")
        if getattr(made, name) != getattr(start, name)
    }
    return {"modifiedPayload": changed}


def _patches(start: Payload, made: Payload) -> Iterator[tuple[Op, ...]]:
    """Yield possible patches from one payload to the other.

    List items are removed from the end, because a removal moves the items after it.
    """
    ops = [
        Op(op="remove", path=one.path)
        if one.op == "remove"
        else Op(op=one.op, path=one.path, value=one.after)
        for one in diff_documents(to_document(start), to_document(made))
    ]
    yield tuple(ops)
    gone = [op for op in ops if op.op == "remove"]
    yield (*reversed(gone), *(op for op in ops if op.op != "remove"))


_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+', re.DOTALL)
_HALF: Final = re.compile("[\ud800-\udfff]")
_CONSTANTS: Final = ("NaN", "Infinity", "-Infinity")
_NO_BASE64: Final = re.compile(r"[^A-Za-z0-9+/=\s]")
_AFTER_THE_END: Final = re.compile(r"=\s*(?=[^=\s])")


class SyntaxMistake(msgspec.Struct, frozen=True):
    """``at`` counts characters from 0."""

    message: str
    at: int


def find_json_mistake(text: str) -> SyntaxMistake | None:
    """Return the first mistake in ``text`` that makes it invalid JSON, or JSON that cannot be
    stored."""
    if _is_taken(Body(type="json", text=text)):
        return None
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return SyntaxMistake(f"not JSON: {error.msg.removesuffix(' at')}", error.pos)
    except (ValueError, RecursionError):
        pass  # too many digits, too deep: the first place of that is found below
    return next(_strictly(text), SyntaxMistake("not JSON that can be stored", 0))


def _is_taken(body: Body) -> bool:
    try:
        body_value(body)
    except UsageError:
        return False
    return True


def _strictly(text: str) -> Iterator[SyntaxMistake]:
    """Find mistakes that the JSON parser accepts or cannot locate.

    ``text`` is otherwise valid JSON.
    """
    inside: list[set[str] | None] = []  # the keys of an object; None is a list
    before = ""
    for match in _TOKEN.finditer(text):
        token, at = match[0], match.start()
        if len(inside) > MAX_DEPTH and token not in "]}":
            yield SyntaxMistake(f"nested deeper than {MAX_DEPTH}", at)
        if token in "[{":
            inside.append(set() if token == "{" else None)
        elif token in "]}":
            inside.pop()
        elif token[0] == '"':
            keys = inside[-1] if inside and before in "{," else None
            yield from (SyntaxMistake(words, at) for words in _of_text(json.loads(token), keys))
        else:
            yield from (SyntaxMistake(words, at) for words in _of_number(token))
        before = token


def _of_text(text: str, keys: set[str] | None) -> Iterator[str]:
    if _HALF.search(text):
        yield "text contains half of a surrogate pair"
    if keys is not None:
        if text in keys:
            yield f"the key {text[:80]!r} occurs twice in one object"
        keys.add(text)


def _of_number(token: str) -> Iterator[str]:
    if token in _CONSTANTS:
        yield f"{token} is not a JSON number"
    elif token[0] in "-0123456789":
        most = sys.get_int_max_str_digits()
        if token.lstrip("-").isdigit():
            if 0 < most < len(token.lstrip("-")):
                yield f"a number of more than {most:,} digits"
        elif math.isinf(float(token)):
            yield "a number too large for a float"


def find_base64_mistake(text: str) -> SyntaxMistake | None:
    """Return the first character that is invalid in base64; white space is allowed."""
    if _is_taken(Body(type="bytes", base64="".join(text.split()))):
        return None
    strange = _NO_BASE64.search(text)
    if strange is not None:
        return SyntaxMistake(f"not base64: {strange[0]!r}", strange.start())
    early = _AFTER_THE_END.search(text)
    if early is not None:
        return SyntaxMistake("not base64: something follows the =", early.end())
    return SyntaxMistake(
        "not base64: the last group of four characters is incomplete", len(text.rstrip())
    )


_SLIPS: Final = {"json": find_json_mistake, "bytes": find_base64_mistake}
