"""A text as its last reader will see it, with the way back to the characters that are there.

A secret inside JSON inside a string may be written ``\\u0073k-…``, a line break before it ``\\n``,
a quote around it ``\\u0022``; inside a URL it may be percent-encoded. The patterns would need a
variant for each. Instead they run on *views* in which such escapes are undone; what they find is
mapped back, so that everything around a secret stays byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable

import msgspec

from reenact.policy.patterns import late

__all__ = ["View", "fold", "unquote"]

# A run of backslashes of any length: text that was written as JSON several times over. It is
# tried once, from its start, and all of it is the match even where it is no escape: millions of
# backslashes must not cost their square. A text in another script may have nothing but wide escapes:
# a row of them is one match. Those of surrogates and of the backslash itself stay as they are. The first
# backslash stands alone, because what starts with one character is searched for ten times as fast.
_WIDE = r"u(?!005[cC]|[dD][89a-fA-F])[0-9A-Fa-f]{4}"
_ESCAPE = late(
    rf"\\(?:(?P<row>(?!u0022){_WIDE}(?:\\(?!u0022){_WIDE})*+)|(?P<more>\\*+)"
    rf"(?:(?P<short>[nrtbf/])|(?P<wide>{_WIDE})|(?P<byte>x[0189A-Fa-f][0-9A-Fa-f]))?)"
)
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "/": "/"}
_QUOTE = "u0022"
_ROW_STEP = len(r"\u0000")
_PERCENT = late(r"(?:%[2-7][0-9A-Fa-f])++")
_PERCENT_STEP = len("%20")


class View(msgspec.Struct):
    """``text``, and for each piece of it where the piece starts in the original, and how many
    characters there each of its own stands for."""

    text: str
    _here: list[int] = msgspec.field(default_factory=lambda: [0])
    _there: list[int] = msgspec.field(default_factory=lambda: [0])
    _steps: list[int] = msgspec.field(default_factory=lambda: [1])
    _below: View | None = None

    def original(self, place: int) -> int:
        """The place in the original text of a place in this one (an end is a place, too)."""
        piece = bisect_right(self._here, place) - 1
        there = self._there[piece] + (place - self._here[piece]) * self._steps[piece]
        if piece + 1 < len(self._there):
            there = min(there, self._there[piece + 1])
        return self._below.original(there) if self._below else there


def fold(text: str) -> View:
    """``text`` with the escapes of JSON and of ``repr`` undone, except the one before a quote.

    That one says how deep the quote is nested. Escaped backslashes stay for the same reason, and
    bytes written ``\\x00`` become NUL: they only matter as the edge of what follows.
    """
    if "\\" not in text:
        return View(text)
    runs = _ESCAPE.finditer(text)
    return _rewrite(text, (run for run in runs if run.lastgroup != "more"), _unescaped)


def unquote(view: View) -> View | None:
    """``view`` with percent-encoded ASCII undone, or None when there is none."""
    if "%" not in view.text or not _PERCENT.search(view.text):
        return None
    plain = _rewrite(view.text, _PERCENT.finditer(view.text), _unquoted)
    plain._below = view
    return plain


_Plain = tuple[str, int]
"""What a match stands for, and how many characters of it each character of that is made of."""


def _unquoted(match: re.Match[str]) -> _Plain:
    return bytes.fromhex(match[0].replace("%", " ")).decode("ascii"), _PERCENT_STEP


def _unescaped(match: re.Match[str]) -> _Plain:
    kind = match.lastgroup
    if kind == "row":
        codes = match[0].replace("\\u", "")
        return bytes.fromhex(codes).decode("utf-16-be"), _ROW_STEP
    if kind == "short":
        return _SHORT[match["short"]], 1
    if kind == "byte":
        return "\0", 1
    if match["wide"] == _QUOTE:
        return "\\" * _escaped(1 + len(match["more"])) + '"', 1
    return chr(int(match["wide"][1:], 16)), 1


def _escaped(run: int) -> int:
    """The backslashes before a plain quote that is as deep as ``u0022`` behind ``run`` of them."""
    return run if run % 2 else 2 * _escaped(run // 2) + 1


def _rewrite(
    text: str, matches: Iterable[re.Match[str]], plain: Callable[[re.Match[str]], _Plain]
) -> View:
    pieces: list[str] = []
    view = View("")
    here = done = 0
    for match in matches:
        start, end = match.span()
        new, step = plain(match)
        pieces += (text[done:start], new)
        here += start - done
        view._here += (here, here + len(new))
        view._there += (start, end)
        view._steps += (step, 1)
        here += len(new)
        done = end
    pieces.append(text[done:])
    view.text = "".join(pieces)
    return view
