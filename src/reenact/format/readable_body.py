"""JSON inside a text, stored as JSON: the form in which a tape shows the body of a response.

``"{\\"a\\": 1}"`` is hard to read and harder to compare. If a known printer produces exactly this
text from a value, the value and the printer are stored instead:
``{"$json":{"a":1},"printed":"spaced"}``. Any other text stays a text. Only ``response.body`` is
converted, in both directions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, Final

import msgspec
import orjson

from reenact.errors import ValueRefused
from reenact.format.canonical import has_plain_numbers

__all__ = ["from_readable", "to_readable"]

_BODY, _SHOWN = b'"response":{"body":', b'"response":{"body":{"$json":'
"""Names are sorted, so that the body of an answer comes first."""
_JSON_STARTS = (b'"{', b'"[', b'{"')
_MARK = b'{"$json":'
_AS_IT_IS: Final = "value"
"""Printer of a response whose body is not a text, but looks like a converted one."""
_DEEPEST = 100
_SMALL = "0.0000"
"""Numbers below 0.0001 Python writes with an exponent, and others do not."""

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder()  # writes what is raw as it is, and names as orjson does
_text = msgspec.json.Decoder(str)


class _Shown(msgspec.Struct):
    value: msgspec.Raw = msgspec.field(name="$json")
    printed: str


_read_shown = msgspec.json.Decoder(_Shown)


class _Answer(msgspec.Struct):
    body: msgspec.Raw


class _Whole(msgspec.Struct):
    response: _Answer


_read_whole = msgspec.json.Decoder(_Whole)


def to_readable(payload: bytes) -> bytes:
    """``payload`` with the body of its answer as JSON, where that is JSON; else itself."""
    start = payload.find(_BODY)
    if start < 0 or payload[start + len(_BODY) : start + len(_BODY) + 2] not in _JSON_STARTS:
        return payload if payload.count(_BODY) < 2 else _with_body(payload, _show)
    return _with_body(payload, _show)


def from_readable(data: bytes) -> bytes:
    """Reverse :func:`to_readable`. Raises :class:`ValueRefused` for input that it never returns."""
    return _with_body(data, _tell) if _SHOWN in data else data


def _with_body(payload: bytes, change: Callable[[bytes], bytes | None]) -> bytes:
    """``payload`` with another body of its answer. Elsewhere the same letters mean nothing."""
    try:
        body = bytes(_read_whole.decode(payload).response.body)
        changed = change(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payload
    if changed is None:
        return payload
    if payload.count(_BODY) == 1:
        start = payload.index(_BODY) + len(_BODY)
        return payload[:start] + changed + payload[start + len(body) :]
    whole = _members.decode(payload)
    answer = _members.decode(whole["response"])
    answer["body"] = msgspec.Raw(changed)
    whole["response"] = msgspec.Raw(_encoder.encode(answer))
    return _encoder.encode(whole)


def _show(body: bytes) -> bytes | None:
    if body.startswith(_MARK):
        return b'%b%b,"printed":"%b"}' % (_MARK, body, _AS_IT_IS.encode())
    text = _text.decode(body)
    if text[:1] not in ("{", "[") or '"$' in text:  # no mark of ours in what is shown
        return None
    if orjson.dumps(text) != body:
        return None
    try:
        value = orjson.loads(text)
        shown = orjson.dumps(value)
        if shown == text.encode() and _SMALL not in text and has_plain_numbers(value):
            name = _COMPACT  # what its printer makes of it, too
        else:
            name = next(name for name in _likely(text) if _print(value, name) == text)
        if _is_too_deep(text, value):
            return None
        return b'%b%b,"printed":"%b"}' % (_MARK, shown, name.encode())
    except (StopIteration, ValueError, RecursionError):
        return None  # no printer that we know


def _tell(body: bytes) -> bytes | None:
    if not body.startswith(_MARK):
        return None
    shown = _read_shown.decode(body)
    if shown.printed == _AS_IT_IS:
        return bytes(shown.value)
    try:
        return orjson.dumps(_print(orjson.loads(bytes(shown.value)), shown.printed))
    except (KeyError, ValueError, RecursionError) as error:
        raise ValueRefused(
            f"no printer {shown.printed[:32]!r} that gives its text: {error}",
            "$.response.body",
            hint="pip install --upgrade reenact",
        ) from None


# Printers


_COMPACT: Final = "compact"
_LAYOUTS: Final[dict[str, dict[str, Any]]] = {
    _COMPACT: {"separators": (",", ":")},
    "spaced": {},
    "indent2": {"indent": 2},
    "indent4": {"indent": 4},
}


def _likely(text: str) -> Iterator[str]:
    """Names of printers that may have made ``text``, the likeliest first."""
    end = " newline" if text.endswith("\n") else ""
    if text[1:2] == "\n":
        layouts = ["indent4" if text.startswith("    ", 2) else "indent2"]
    elif ": " in text or ", " in text:
        layouts = ["spaced", _COMPACT]
    else:
        layouts = [_COMPACT]
    escaped = ["", " ascii"] if "\\u" in text and text.isascii() else [""]
    for layout in layouts:
        for ascii_only in escaped:
            yield f"{layout}{ascii_only}{end}"


def _print(value: Any, name: str) -> str:
    """Raises KeyError for a printer that is not known."""
    return _printer(name).encode(value) + ("\n" if name.endswith(" newline") else "")


@cache
def _printer(name: str) -> json.JSONEncoder:
    layout, *words = name.split(" ")
    if not {"ascii", "newline"}.issuperset(words):
        raise KeyError(name)
    return json.JSONEncoder(ensure_ascii="ascii" in words, **_LAYOUTS[layout])


def _is_too_deep(text: str, value: Any) -> bool:
    """Would it be deeper than a line of the log may be? Few texts can be."""
    if text.count("{") + text.count("[") <= _DEEPEST:
        return False
    deep, level = 0, [value]
    while level:
        deep += 1
        nested = [one for one in level if isinstance(one, (dict, list))]
        level = [
            item for one in nested for item in (one.values() if isinstance(one, dict) else one)
        ]
    return deep > _DEEPEST
