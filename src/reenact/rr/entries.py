"""Cassette entry and its representation as an event.

An entry is a ``nondeterministic`` event: ``source`` is its kind, and the other fields are ``op``,
``key``, ``request``, ``response``, ``err``, ``latencyTicks`` and ``cuts``. UTF-8 bytes are stored
as text, so that a person can review the cassette.

Errors have the numbers of X07, which never change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from reenact.engine.call import SCHEDULE
from reenact.errors import RrError, did_you_mean
from reenact.format.event import Data

__all__ = [
    "CFG_INVALID",
    "CFG_VERSION",
    "ENTRY_INVALID",
    "EVENT",
    "KIND_MISMATCH",
    "MISS",
    "MODE_FORBIDS_APPEND",
    "MODE_FORBIDS_NEXT",
    "OPEN_FAILED",
    "OP_MISMATCH",
    "OVER_CASSETTE_BYTES",
    "OVER_ENTRIES",
    "OVER_KEY_BYTES",
    "OVER_REQ_BYTES",
    "OVER_RESP_BYTES",
    "STREAM_CFG_INVALID",
    "STREAM_OVER_IN_BYTES",
    "STREAM_OVER_ITEMS",
    "STREAM_OVER_OUT_BYTES",
    "TRUNCATED",
    "Entry",
    "check",
    "fields_of",
    "key_text",
    "name_text",
    "raw_bytes",
    "read",
]

STREAM_CFG_INVALID: Final = 1
"""The limits of a stream make no sense."""
STREAM_OVER_IN_BYTES: Final = 2
"""More came out of the cassette than a stream may take."""
STREAM_OVER_OUT_BYTES: Final = 3
"""A stream has handed over as many bytes as it may."""
STREAM_OVER_ITEMS: Final = 4
"""A stream has handed over as many pieces as it may."""

CFG_INVALID: Final = 2000
"""The cfg makes no sense, or its path is not safe."""
CFG_VERSION: Final = 2001
"""The cfg is of a version that is not known."""
OPEN_FAILED: Final = 2002
"""The cassette is missing, damaged or in the way, or cannot be written."""
OVER_CASSETTE_BYTES: Final = 2003
"""All entries together are too large."""
OVER_ENTRIES: Final = 2004
"""There are too many entries."""
OVER_REQ_BYTES: Final = 2005
"""A request is too large."""
OVER_RESP_BYTES: Final = 2006
"""A response is too large."""
OVER_KEY_BYTES: Final = 2007
"""A key is too long."""
ENTRY_INVALID: Final = 2008
"""Something is not an entry."""
MISS: Final = 2009
"""Nothing was recorded for this. The one error after which an adapter makes the live call."""
KIND_MISMATCH: Final = 2010
"""The next entry of the transcript has another kind."""
OP_MISMATCH: Final = 2011
"""The next entry of the transcript has another op."""
MODE_FORBIDS_NEXT: Final = 2012
"""This mode serves nothing."""
MODE_FORBIDS_APPEND: Final = 2013
"""This mode writes nothing."""
TRUNCATED: Final = 2014
"""The cassette is cut short."""

EVENT: Final = "nondeterministic"
"""The type of the event that holds an entry."""

_U32 = 2**32
_ESCAPED = "bytes:"
_ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """Request and result of one call.

    ``kind``, ``op`` and ``key`` identify the call. ``err`` is the live call's error number, or 0.
    ``latency_ticks`` is stored and returned, but never waited for. ``cuts`` are the offsets in
    ``resp`` where a chunk ended, for :func:`reenact.rr.stream`. ``redacted`` is True for a served
    entry that lost secrets, so that ``resp`` is incomplete.
    """

    kind: str
    op: str
    key: bytes = b""
    req: bytes = b""
    resp: bytes = b""
    err: int = 0
    latency_ticks: int | None = None
    cuts: tuple[int, ...] = ()
    redacted: bool = False


_NAMES = tuple(name for name in Entry.__struct_fields__ if name != "redacted")
_REQUIRED = ("kind", "op")


def check(given: Entry | Mapping[str, Any]) -> Entry:
    """An entry that can be written, of one or of a mapping with the same names.

    Text stands for its UTF-8 bytes. Raises :class:`RrError` 2008.
    """
    fields = _fields(given)
    return Entry(
        kind=_kind(fields["kind"]),
        op=_name("op", fields["op"]),
        key=_content("key", fields.get("key", b"")),
        req=_content("req", fields.get("req", b"")),
        resp=_content("resp", fields.get("resp", b"")),
        err=_number("err", fields.get("err", 0), -_U32 // 2),
        latency_ticks=_ticks(fields.get("latency_ticks")),
        cuts=_cuts(fields.get("cuts", ())),
    )


def _fields(given: Entry | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(given, Entry):
        return {name: getattr(given, name) for name in _NAMES}
    if not isinstance(given, Mapping):
        raise _invalid(f"an entry is an rr.Entry or a mapping, not {type(given).__name__}")
    for name in given:
        if name not in _NAMES:
            raise _invalid(
                f"an entry has no field {str(name)[:64]!r}", did_you_mean(str(name), _NAMES)
            )
    for name in _REQUIRED:
        if name not in given:
            raise _invalid(f"the entry has no {name}")
    return given


def _kind(value: Any) -> str:
    kind = _name("kind", value)
    if not kind:
        raise _invalid("the kind is empty", "such as http, db or rr")
    if kind == SCHEDULE:
        raise _invalid(f"{SCHEDULE!r} is a kind of our own", "choose another")
    return kind


def _name(field: str, value: Any) -> str:
    name = name_text(value)
    if name is None:
        raise _invalid(f"{field} is not text")
    return name


def name_text(value: Any) -> str | None:
    """A kind or an op, which may be given as UTF-8; None for what is not text."""
    try:
        return raw_bytes(value).decode() if isinstance(value, (str, bytes)) else None
    except UnicodeDecodeError:
        return None


def _content(field: str, value: Any) -> bytes:
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, (str, bytes)):
        raise _invalid(f"{field} is bytes (or text), not {type(value).__name__}")
    return raw_bytes(value)


def raw_bytes(value: str | bytes) -> bytes:
    """Text stands for its UTF-8 bytes."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def _number(field: str, value: Any, least: int) -> int:
    if type(value) is not int or not least <= value < _U32:
        raise _invalid(f"{field} is a whole number from {least} to {_U32 - 1}")
    return value


def _ticks(value: Any) -> int | None:
    return None if value is None else _number("latency_ticks", value, 0)


def _cuts(value: Any) -> tuple[int, ...]:
    """A redacted answer may be shorter than it was, so the last ones may lie behind its end."""
    cuts = tuple(value) if isinstance(value, (tuple, list)) else (None,)
    if any(type(cut) is not int or cut < 0 for cut in cuts) or list(cuts) != sorted(cuts):
        raise _invalid("cuts are places in resp, in ascending order", "such as (9, 18)")
    return cuts


def fields_of(entry: Entry) -> Data:
    """Return the event fields of ``entry`` except kind, op and key."""
    fields: Data = {
        "request": _text_or_bytes(entry.req),
        "response": _text_or_bytes(entry.resp),
        "err": entry.err,
    }
    if entry.latency_ticks is not None:
        fields["latencyTicks"] = entry.latency_ticks
    if entry.cuts:
        fields["cuts"] = list(entry.cuts)
    return fields


def _text_or_bytes(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def key_text(raw: bytes) -> str:
    """Return the text that represents a key in an event. Different keys have different texts.

    Bytes that are not UTF-8 are escaped one by one, so that redaction still sees the other bytes.
    """
    text = _text_or_bytes(raw)
    if isinstance(text, str) and not text.startswith(_ESCAPED):
        return text
    return _ESCAPED + raw.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _key_bytes(text: str) -> bytes:
    raw = text.encode()
    if not text.startswith(_ESCAPED):
        return raw
    return _ESCAPE.sub(_unescaped, raw.removeprefix(_ESCAPED.encode()))


def _unescaped(match: re.Match[bytes]) -> bytes:
    return bytes.fromhex(match[1].decode()) if match[1] else b"\\"


def read(data: Data, place: str) -> Entry:
    """The entry in the data of an event. Raises :class:`RrError` 2008 that names ``place``."""
    if "withheld" in data:
        raise _invalid(
            f"{place} is not an entry: its payload was withheld, because it looked like a secret",
            "keep the secret out of the entry, and record it again",
        )
    key, response = data.get("key"), data.get("response")
    if not isinstance(key, str) or not isinstance(response, (str, bytes)):
        raise _unreadable(place, "it has no key, or its response is neither text nor bytes")
    fields = {
        "kind": data.get("source"),
        "op": data.get("op", ""),
        "key": _key_bytes(key),
        "req": data.get("request", b""),
        "resp": response,
        "err": data.get("err", 0),
        "latency_ticks": data.get("latencyTicks"),
        "cuts": data.get("cuts", ()),
    }
    try:
        entry = check(fields)
    except RrError as error:
        raise _unreadable(place, error.message.partition(": ")[2]) from None
    return msgspec.structs.replace(entry, redacted="redacted" in data)


def _unreadable(place: str, why: str) -> RrError:
    return _invalid(
        f"{place} is not an entry: {why}",
        "a cassette that a session recorded is replayed with reenact.session",
    )


def _invalid(message: str, hint: str = "") -> RrError:
    return RrError(
        ENTRY_INVALID,
        message,
        hint=hint or "rr.Entry(kind='http', op='get', key=b'…', req=b'…', resp=b'…', err=0)",
    )
