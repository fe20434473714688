"""An edited payload as the fields of a form, and back (pure).

A form begins with what was recorded. A section whose fields come back as they were given out is the
recorded one, to the byte: browsers change line breaks, and that is no edit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from reenact.errors import ReenactError
from reenact.exchange.changes import diff
from reenact.exchange.document import check_payload, to_document
from reenact.exchange.headers import check_headers
from reenact.exchange.model import Body, BodyType, Payload
from reenact.exchange.patch import Op, edit, to_patch
from reenact.server.pages.forms import Form
from reenact.server.pages.mistakes import Slip, base64_slip, json_slip
from reenact.server.pages.values import pretty

__all__ = [
    "TYPES",
    "Draft",
    "Mistake",
    "draft_of",
    "payload_of",
    "place_in",
    "read_draft",
    "sections_of",
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
    """What cannot be sent. ``line`` and ``column`` are from 1; 0 where it is no place in a text.
    Headers have no columns, and are counted without those that are empty."""

    field: Field
    message: str
    line: int = 0
    column: int = 0


def place_in(one: Mistake) -> str:
    """Where in its field it is; empty where that cannot be said."""
    if one.line and not one.column:
        return f"number {one.line}"
    return f"line {one.line}, column {one.column}" if one.line else ""


def draft_of(payload: Payload) -> Draft:
    """What a form begins with: ``payload`` in texts with line feeds."""
    body = payload.body
    text = body.base64 if body.type == "bytes" else body.text
    return Draft(
        headers=payload.headers,
        body_type=body.type,
        body=_lines(text),
        properties=pretty(payload.properties),
    )


def read_draft(form: Form) -> Draft:
    """A header whose name and value are empty is none."""
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
    """What the draft says; or None, and why not."""
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
        found = [*_check("properties", draft.properties, json_slip)]
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


_SLIPS: Final = {"json": json_slip, "bytes": base64_slip}


def _check(field: Field, text: str, slip_in: Callable[[str], Slip | None]) -> Iterator[Mistake]:
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


def sections_of(start: Payload, made: Payload) -> dict[str, Any]:
    """The edit as the API takes it: a patch where one says it to the letter, else whole sections;
    nothing where nothing was edited."""
    if made == start:
        return {}
    for ops in _patches(start, made):
        try:
            if edit(start, ops) == made:
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
    """Patches that may lead from one to the other: taking items out of a list moves those behind
    them, and so they are taken from the end."""
    ops = [
        Op(op="remove", path=one.path)
        if one.op == "remove"
        else Op(op=one.op, path=one.path, value=one.after)
        for one in diff(to_document(start), to_document(made))
    ]
    yield tuple(ops)
    gone = [op for op in ops if op.op == "remove"]
    yield (*reversed(gone), *(op for op in ops if op.op != "remove"))
