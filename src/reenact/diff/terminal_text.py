"""Text for terminals: escaping, clipping to a width, and excerpts around the first difference.

Recorded text is untrusted. Control characters are escaped, so a terminal never interprets them.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["around_difference", "cell_width", "clip", "common_start", "escape_controls", "preview"]

_ON_TOP = ("Mn", "Me")
"""Categories of what is drawn over the character before it."""
_SPACES = "\u00a0\u3000"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CUT = "..."
_CONTEXT = 3
"""Denominator of the share of the excerpt before the first difference."""


def common_start(one: str, other: str) -> int:
    """The place of the first character that differs; the shorter length when none does."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def around_difference(one: str, other: str, room: int) -> tuple[str, str]:
    """Cut both texts to ``room`` characters each, so that the first difference is visible.

    Short texts are unchanged; ``...`` marks an omission.
    """
    if len(one) <= room and len(other) <= room:
        return one, other
    first = common_start(one, other)
    start = max(0, first - room // _CONTEXT)
    if start <= len(_CUT):
        start = 0
    return _window(one, start, room), _window(other, start, room)


def _window(text: str, start: int, room: int) -> str:
    head = _CUT if start else ""
    rest = text[start:]
    room = max(0, room - len(head))
    if len(rest) > room:
        rest = rest[: max(0, room - len(_CUT))] + _CUT
    return head + rest


def escape_controls(text: str) -> str:
    """``text`` as one line that a terminal only shows.

    Control characters (C0, C1, DEL), formatting ones (bidi, zero width, tags), line separators,
    lone surrogates and unassigned characters are written as JSON would: ``\\u001b``.
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char.isprintable() or char in _SPACES:
        return char
    return _SHORT.get(char) or _escaped(char)


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def clip(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells of a terminal; 0 means as long as it is."""
    if not width or (len(text) <= width and cell_width(text) <= width):
        return text
    room, kept = width - len(_CUT), []
    for char in text:
        room -= cell_width(char)
        if room < 0:
            break
        kept.append(char)
    # Characters that take no cell are not without limit, either.
    return ("".join(kept)[: max(0, width - len(_CUT))] + _CUT)[:width]


def cell_width(text: str) -> int:
    """Return the number of terminal cells of ``text``."""
    if text.isascii():
        return len(text)
    return sum(map(_char_cells, text))


def _char_cells(char: str) -> int:
    if unicodedata.category(char) in _ON_TOP:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def preview(value: Any, limit: int) -> str:
    """Return the beginning of ``value`` as JSON on one line. Only the visible part is encoded."""
    text = ""
    for piece in _json_pieces(value, limit):
        text += piece
        if len(text) > limit:
            break
    return clip(escape_controls(text), limit)


def _json_pieces(value: Any, limit: int) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _joined("{", (_member(item, limit) for item in value.items()), "}")
    elif isinstance(value, (list, tuple)):
        yield from _joined("[", (_json_pieces(item, limit) for item in value), "]")
    elif isinstance(value, str):
        yield json.dumps(value[: limit + 1], ensure_ascii=False)
    elif isinstance(value, bytes):
        from reenact.format.canonical import digest

        yield f"{len(value):,} bytes, {digest(value)}"
    else:
        yield json.dumps(value)


def _member(item: tuple[str, Any], limit: int) -> Iterator[str]:
    yield f"{json.dumps(item[0][: limit + 1], ensure_ascii=False)}: "
    yield from _json_pieces(item[1], limit)


def _joined(start: str, parts: Iterable[Iterator[str]], end: str) -> Iterator[str]:
    yield start
    for index, part in enumerate(parts):
        if index:
            yield ", "
        yield from part
    yield end
