"""Redaction of exchanges before they leave the process."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from reenact.errors import ReenactError, ValueRefused
from reenact.exchange.model import Change, ErrorFacts, Payload, Processor
from reenact.exchange.payload import body_bytes, from_document, to_document
from reenact.exchange.payload_edits import resolve_pointer
from reenact.exchange.snapshot import encode_bytes as encoded
from reenact.exchange.snapshot import snapshot
from reenact.format.canonical import exact, quickly
from reenact.format.json_path import format_pointer, parse, parse_pointer
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

__all__ = ["ExchangeRedactor", "RedactedPayload", "fill_values", "placeholder_pointers"]

_MARK = "***REDACTED"
_LONGEST = 4_000
_BYTES = "$bytes"
_BYTES_KEY = b'$bytes"'
_EXPONENT = re.compile(rb"[0-9]e[-+]?[0-9]+[,\]}]")
"""The end of a float with an exponent, inside a container."""


class RedactedPayload(msgspec.Struct, frozen=True):
    """Redacted payload. ``pointers`` are the locations of secrets. ``lost`` is the reason why the
    payload cannot be stored, usually empty."""

    payload: Payload
    pointers: tuple[str, ...] = ()
    lost: str = ""


class ExchangeRedactor:
    """Redactor of exchanges. Safe to share between threads."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def payloads(
        self, start: Payload, result: Payload | None, filled: Iterable[str] = ()
    ) -> tuple[RedactedPayload, RedactedPayload | None]:
        """Return both payloads of an exchange without secrets. Values at ``filled`` of ``start``
        are always secret. One search is enough if neither has secrets."""
        filled = tuple(filled)
        if result is None:
            return self.payload(start, filled), None
        if not filled and self._is_clean([_document(start), _document(result)]):
            return RedactedPayload(start), RedactedPayload(result)
        return self.payload(start, filled), self.payload(result)

    def payload(self, payload: Payload, filled: Iterable[str] = ()) -> RedactedPayload:
        """Return ``payload`` without secrets. Values at ``filled`` are always secret."""
        document = _document(payload)
        filled = tuple(filled)
        if not filled and self._is_clean(document):
            return RedactedPayload(payload)
        found = self.redactor.redact(document)
        pointers = {format_pointer(parse(mark.path)): None for mark in found.marks}
        clean = _covered(encoded(found.value), filled, pointers)
        kept = from_document(clean, payload) if pointers else payload
        survivors = self.redactor.survivors(msgspec.json.encode(kept))
        if survivors:
            return RedactedPayload(Payload(), lost=f"a secret cannot be redacted ({survivors[0]})")
        return RedactedPayload(kept, tuple(pointers))

    def error(self, error: BaseException) -> ErrorFacts:
        """Return the class and the redacted message of ``error``."""
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else _dotted(kind)
        try:
            text = str(error)
        except Exception:  # noqa: BLE001 - code of the program, which may fail in any way
            text = ""
        return ErrorFacts(type=name[:_LONGEST], message=self.text(text))

    def text(self, text: str) -> str:
        """Return ``text`` without secrets, shortened to the length of a message."""
        clean = text if self._is_harmless(text) else self.redactor.text(text)
        return clean if len(clean) <= _LONGEST else clean[: _LONGEST - 1] + "…"

    def processors(self, processors: Sequence[Processor]) -> tuple[Processor, ...]:
        """Return processors without secrets, as JSON values."""
        return tuple(map(self._processor, processors))

    def _processor(self, one: Processor) -> Processor:
        found = msgspec.structs.replace(
            one,
            changes=tuple(map(self._change, one.changes)),
            input=self._if_set(one.input),
            output=self._if_set(one.output),
        )
        if self.redactor.survivors(msgspec.json.encode(found)):
            unset = msgspec.UNSET
            return msgspec.structs.replace(found, changes=(), input=unset, output=unset)
        return found

    def value(self, value: Any) -> Any:
        """Return a bounded JSON snapshot of ``value`` without secrets."""
        return self._clean(snapshot(value))

    def _clean(self, plain: Any) -> Any:
        """Return a snapshot without secrets."""
        try:
            written = exact(plain)
        except ValueRefused:
            written = b""
        if not written or self.redactor.suspects(written):
            return encoded(self.redactor.redact(plain).value)
        return encoded(plain) if _BYTES_KEY in written else plain

    def _is_harmless(self, text: str) -> bool:
        try:
            return not text or not self.redactor.suspects(text.encode())
        except UnicodeEncodeError:
            return False

    def _is_clean(self, value: Any) -> bool:
        try:
            return not self.redactor.suspects(_written(value))
        except ValueRefused:
            return False

    def _if_set(self, value: Any) -> Any:
        return value if value is msgspec.UNSET else self._clean(value)

    def _change(self, change: Change) -> Change:
        tokens = parse_pointer(change.path)
        clean = tuple(map(self.text, tokens))
        return msgspec.structs.replace(
            change,
            path=change.path if clean == tokens else format_pointer(clean),
            before=self._at(tokens, change.before),
            after=self._at(tokens, change.after),
        )

    def _at(self, tokens: tuple[str, ...], value: Any) -> Any:
        """Redact ``value`` with the names in ``tokens``, which can make it secret."""
        if value is msgspec.UNSET:
            return value
        whole: Any = value
        for token in reversed(tokens):
            whole = {token: whole}
        inner = whole if self._is_clean(whole) else self.redactor.redact(whole).value
        for _ in tokens:
            (inner,) = inner.values()  # under another name, if a secret was in it
        return encoded(snapshot(inner))


def _written(value: Any) -> bytes:
    """Return :func:`exact` of a container.

    The fast encoder returns the same bytes for a value that was read from JSON, as almost every payload
    was, except for floats with an exponent.
    """
    encoded = quickly(value)
    return encoded if encoded and not _EXPONENT.search(encoded) else exact(value)


def _document(payload: Payload) -> dict[str, Any]:
    """Return the document to search, with a binary body as bytes. It shares the properties."""
    document = to_document(payload, copies=False)
    if payload.body.type == "bytes" and payload.body.clipped is None:
        document["body"] = body_bytes(payload.body)
    return document


def _dotted(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _covered(document: Any, filled: Iterable[str], pointers: dict[str, None]) -> Any:
    """Replace the values at ``filled`` by placeholders."""
    for pointer in filled:
        tokens = parse_pointer(pointer)
        try:
            value = resolve_pointer(document, tokens)
        except LookupError:
            continue  # edited away
        if isinstance(value, str) and _MARK in value:
            continue
        owner = resolve_pointer(document, tokens[:-1])
        mark: Any = {_BYTES: ""} if _is_bytes(value) else PLACEHOLDER
        owner[tokens[-1] if isinstance(owner, dict) else int(tokens[-1])] = mark
        pointers[pointer] = None
    return document


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {_BYTES}


def placeholder_pointers(payload: Payload, redacted: Iterable[str]) -> tuple[str, ...]:
    """Return the pointers of ``redacted`` that still have a placeholder."""
    document = to_document(payload)
    if payload.body.type == "bytes" and payload.body.clipped is None:
        document["body"] = body_bytes(payload.body).decode("utf-8", "replace")
    return tuple(pointer for pointer in redacted if _has_mark(document, pointer))


def _has_mark(document: Any, pointer: str) -> bool:
    try:
        value = resolve_pointer(document, parse_pointer(pointer))
    except (LookupError, ReenactError):
        return False
    if isinstance(value, dict):  # a secret was in the name of a field
        return any(_MARK in name for name in value)
    return isinstance(value, str) and _MARK in value


def fill_values(payload: Payload, values: dict[str, Any]) -> Payload:
    """Return ``payload`` with ``values`` at their pointers. Raises :class:`UsageError` for invalid
    values."""
    document = to_document(payload)
    for pointer, value in values.items():
        tokens = parse_pointer(pointer)
        owner = resolve_pointer(document, tokens[:-1])
        fitting = encoded(value)
        owner[tokens[-1] if isinstance(owner, dict) else int(tokens[-1])] = fitting
    return from_document(document, payload)
