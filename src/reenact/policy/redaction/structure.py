"""Structure of recorded values: leaves, pairs, arguments, schemas, streams in chunks, wide text.

All other charsets in use encode ASCII as ASCII, so their bytes can be searched directly. UTF-16 and
UTF-32 are recognised by their bytes, with or without a byte order mark and independent of headers:
three ASCII characters in a row are enough. Both byte orders are tried, the likely one first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.grammar import Finding, Span
from reenact.policy.redaction.names import is_log_probability, normalise
from reenact.policy.redaction.placeholder import pseudonym

__all__ = [
    "CHUNKS",
    "GATE_ESCAPED",
    "GATE_RAW",
    "PAYLOADS",
    "REMOVED",
    "SCHEMA_VALUES",
    "Leaf",
    "Wide",
    "decoded",
    "if_changed",
    "is_argument",
    "is_pair",
    "is_piece_of_text",
    "is_schema",
    "leaf_text",
    "like",
    "pair_name",
    "payload",
    "payload_key",
    "pieces",
    "rejoin",
    "replace_wide",
    "wide_forms",
    "with_items",
]

CHUNKS = "chunks"
"""The key under which a list is one stream."""

PAYLOADS = ("text", "bytes", "data")
"""Keys of a chunk object that contain its part of the stream."""


def payload_key(chunk: dict[Any, Any]) -> str | None:
    """The key of the one payload of ``chunk``, if it has exactly one."""
    found = [key for key in PAYLOADS if isinstance(chunk.get(key), (str, bytes))]
    return found[0] if len(found) == 1 else None


def pieces(chunks: Sequence[Any]) -> list[str] | list[bytes] | None:
    """Return the parts of the stream, all of one kind, or None if this is not a stream."""
    parts = [_piece(chunk) for chunk in chunks]
    if parts and all(isinstance(part, str) for part in parts):
        return [part for part in parts if isinstance(part, str)]
    if parts and all(isinstance(part, bytes) for part in parts):
        return [part for part in parts if isinstance(part, bytes)]
    return None


def payload(chunk: Any) -> bytes:
    """Return the part of the stream in ``chunk``, empty if it has none."""
    part = _piece(chunk)
    return part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part or b""


def _piece(chunk: Any) -> str | bytes | None:
    if isinstance(chunk, (str, bytes)):
        return chunk
    key = payload_key(chunk) if isinstance(chunk, dict) else None
    return chunk[key] if key is not None else None


def decoded(data: bytes) -> tuple[str, str]:
    """``data`` as text, and the encoding that turns it back into the same bytes."""
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1"


def rejoin(
    parts: Sequence[str] | Sequence[bytes], find: Callable[[str], list[Finding]], salt: bytes | None
) -> tuple[list[str | bytes], str]:
    """The parts without the secrets of their joined text, and the rule of the first, or ``""``.

    There are as many parts as before. A placeholder goes where its secret begins; what follows of
    the secret is cut from the later parts.
    """
    if isinstance(parts[0], bytes):
        raw = [part for part in parts if isinstance(part, bytes)]
        text, encoding = decoded(b"".join(raw))
        # As latin-1, characters are bytes: a chunk may end in the middle of a character.
        pieces_ = [part.decode("latin-1") for part in raw]
    else:
        pieces_, encoding = [part for part in parts if isinstance(part, str)], ""
        text = "".join(pieces_)
    found = find(text)
    if not found:
        return _rejoin_wide(parts, find, salt) if "\0" in text else (list(parts), "")
    marks = [one.quote + pseudonym(salt, text[one.start : one.end]) + one.quote for one in found]
    spans = _byte_spans(text, found) if encoding == "utf-8" else [(f.start, f.end) for f in found]
    new = _cut(pieces_, spans, marks)
    fresh = [part.encode("latin-1") if encoding else part for part in new]
    if "\0" in text:
        fresh, _ = _rejoin_wide(fresh, find, salt)
    return fresh, found[0].rule


def _rejoin_wide(
    parts: Sequence[str | bytes], find: Callable[[str], list[Finding]], salt: bytes | None
) -> tuple[list[str | bytes], str]:
    """Like :func:`rejoin`, for what the parts are as UTF-16 or UTF-32."""
    raw = [
        part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part for part in parts
    ]
    rule = ""
    for form in wide_forms(b"".join(raw)):
        text = form.text(b"".join(raw)) or ""
        found = find(text)
        if found:
            rule = rule or found[0].rule
            said = [
                one.quote + pseudonym(salt, text[one.start : one.end]) + one.quote for one in found
            ]
            marks = [form.written(mark).decode("latin-1") for mark in said]
            pieces_ = [part.decode("latin-1") for part in raw]
            raw = [part.encode("latin-1") for part in _cut(pieces_, form.spans(text, found), marks)]
    if not rule:
        return list(parts), ""
    is_text = isinstance(parts[0], str)
    return [part.decode("utf-8", "replace") if is_text else part for part in raw], rule


def _byte_spans(text: str, found: Sequence[Finding]) -> list[Span]:
    spans: list[Span] = []
    done = place = 0
    for one in found:
        start = place + len(text[done : one.start].encode())
        place = start + len(text[one.start : one.end].encode())
        done = one.end
        spans.append((start, place))
    return spans


def _cut(parts: Sequence[str], spans: Sequence[Span], marks: Sequence[str]) -> list[str]:
    new: list[str] = []
    start = 0
    for part in parts:
        kept: list[str] = []
        place = 0
        for (first, last), mark in zip(spans, marks, strict=True):
            first, last = first - start, last - start
            if last <= 0 or first >= len(part):
                continue
            if first >= 0:
                kept += (part[place:first], mark)
            place = last
        new.append("".join([*kept, part[place:]]))
        start += len(part)
    return new


GATE_RAW = r"(?:[\x09\x0a\x0d\x20-\x7e]\x00{1,3}){3}"
GATE_ESCAPED = r"(?:\\?[\x20-\x7e](?:\\u0000){1,3}){3}"
"""Pattern of the gate for the bytes, and for JSON that contains them as a string."""

_UNITS = (
    (lazy_pattern(rb"(?:[\t\n\r -~]\x00){3}"), 2, "utf-16"),
    (lazy_pattern(rb"(?:[\t\n\r -~]\x00\x00\x00){3}"), 4, "utf-32"),
)
_MARK = "\ufeff"


class Wide(msgspec.Struct, frozen=True):
    """One way to read bytes: from ``offset`` on, ``size`` bytes for each unit, in ``encoding``."""

    offset: int
    size: int
    encoding: str

    def text(self, data: bytes) -> str | None:
        """The text of ``data``; what is cut off at its end is left out. None when it is none."""
        whole = (len(data) - self.offset) // self.size * self.size
        try:
            return data[self.offset : self.offset + whole].decode(self.encoding, "surrogatepass")
        except UnicodeDecodeError:
            return None

    def written(self, text: str) -> bytes:
        """``text`` as bytes."""
        return text.encode(self.encoding, "surrogatepass")

    def spans(self, text: str, found: Sequence[Finding]) -> list[Span]:
        """Return the positions of disjoint, ordered findings in the bytes of ``text``."""
        spans: list[Span] = []
        done, place = 0, self.offset
        for one in found:
            start = place + len(self.written(text[done : one.start]))
            place = start + len(self.written(text[one.start : one.end]))
            done = one.end
            spans.append((start, place))
        return spans

    def covered(self, data: bytes, mark: str) -> bytes:
        """``mark`` in place of all of ``data``, with its byte order mark."""
        text = self.text(data) or ""
        return self.written(_MARK + mark if text.startswith(_MARK) else mark)


def wide_forms(data: bytes) -> Iterator[Wide]:
    """The ways to read ``data`` as UTF-16 or UTF-32; none for ordinary text and most binary data."""
    if b"\0" not in data:
        return
    for run, size, name in _UNITS:
        offsets = {match.start() % size for match in run.finditer(data)}
        for offset in sorted(offsets):
            little = Wide(offset, size, f"{name}-le")
            big = Wide((offset + 1) % size, size, f"{name}-be")
            yield from (little, big) if offset == 0 else (big, little)


def replace_wide(
    data: bytes, find: Callable[[str], list[Finding]], mark: Callable[[str], str]
) -> tuple[bytes, str]:
    """``data`` without the secrets of its wide texts, and the rule of the first, or ``""``."""
    rule = ""
    for form in wide_forms(data):
        text = form.text(data)
        found = find(text) if text else []
        if text is None or not found:
            continue
        rule = rule or found[0].rule
        pieces, done = [], 0
        for one, (start, end) in zip(found, form.spans(text, found), strict=True):
            new = one.quote + mark(text[one.start : one.end]) + one.quote
            pieces += [data[done:start], form.written(new)]
            done = end
        data = b"".join([*pieces, data[done:]])
    return data, rule


Leaf = str | bytes | int | float

SCHEMA_VALUES = frozenset({"default", "const", "example", "examples"})
"""Keywords of a JSON schema that hold values instead of describing them."""

_SCHEMA_TYPES = frozenset("string integer number boolean object array null".split())
_SCHEMA_KEYS = ("$ref", "anyOf", "oneOf", "allOf")
_FLAG = lazy_pattern(r"--[A-Za-z][A-Za-z0-9_.\-]*\Z")


def is_argument(flag: Any, value: Any) -> bool:
    """Return whether ``value`` is the argument of ``flag``, the item before it: ``["--token",
    "x"]``.
    """
    if isinstance(value, bytes) and isinstance(flag, bytes):
        value, flag = value.decode("latin-1"), flag.decode("latin-1")
    return (
        isinstance(value, str)
        and isinstance(flag, str)
        and _FLAG.match(flag) is not None
        and not value.startswith("-")
    )


def leaf_text(value: Leaf) -> tuple[str, str]:
    """A leaf as text, and its encoding if it was bytes."""
    if isinstance(value, bytes):
        return decoded(value)
    return (value, "") if isinstance(value, str) else (str(value), "")


REMOVED: Final = object()
"""Result of a change that removes a member of an object."""


def with_items(value: Any, change: Callable[[Any, Any], Any]) -> Any:
    """Return an object or a list with ``change(key, item)`` in place of each item.

    If no item changes, the result is ``value`` itself.
    """
    if not isinstance(value, dict):
        return like(value, [change(index, item) for index, item in enumerate(value)])
    new: dict[Any, Any] = {}
    changed = False
    for key, item in value.items():
        fresh = change(key, item)
        changed = changed or fresh is not item
        if fresh is not REMOVED:
            new[key] = fresh
    return new if changed else value


def like(old: list[Any] | tuple[Any, ...], new: list[Any]) -> Any:
    """``new`` in the type of ``old``, or ``old`` itself when nothing changed."""
    if all(fresh is item for fresh, item in zip(new, old, strict=True)):
        return old
    return tuple(new) if isinstance(old, tuple) else new


def if_changed(old: dict[Any, Any], new: dict[Any, Any]) -> dict[Any, Any]:
    """``new``, or ``old`` itself when nothing changed."""
    return new if any(new[key] is not old[key] for key in old) else old


def is_pair(item: Any) -> bool:
    """Return whether this could be a header: a name and its value."""
    return isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], (str, bytes))


def pair_name(name: str | bytes) -> str:
    """The name of a pair as text."""
    return name if isinstance(name, str) else name.decode("latin-1")


def is_piece_of_text(owner: dict[Any, Any], key: str) -> bool:
    """Return whether this is the ``token`` of a log probability."""
    return normalise(key) == "token" and any(
        isinstance(other, str) and is_log_probability(other) for other in owner
    )


def is_schema(value: Any) -> bool:
    """Return whether this describes a value, like a JSON schema, instead of being one."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return any(isinstance(k, str) and k in _SCHEMA_TYPES for k in kinds) or any(
        key in value for key in _SCHEMA_KEYS
    )
