"""Search and replacement of secrets in one text.

A secret inside JSON inside a string can be written ``\\u0073k-…``, a line break before it ``\\n``,
a quote around it ``\\u0022``, and inside a URL it can be percent-encoded. The patterns run on *views*
in which such escapes are undone. Matches are mapped back to the original text, so everything around a
secret stays unchanged byte for byte.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import msgspec
from msgspec import structs

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.assignments import Assignments
from reenact.policy.redaction.command_lines import command_credentials, net_credentials
from reenact.policy.redaction.grammar import Finding
from reenact.policy.redaction.known_values import KnownValues
from reenact.policy.redaction.names import Names
from reenact.policy.redaction.placeholder import is_mark, pseudonym
from reenact.policy.redaction.prescan import ClueIndex, IndexedText
from reenact.policy.redaction.strict import find_strict
from reenact.policy.redaction.tokens import SHAPES

__all__ = ["TextScanner", "View", "fold", "replace", "unquote"]

# The complete user info is redacted, because a token can also be in the place of the user.
_USERINFO = lazy_pattern(
    r"://(?P<s>[^/?#\"'<>\\@:\x00-\x20]{0,256}:[^/?#\"'<>\\\x00-\x20]{1,512}"
    r"|(?=[^@]{0,256}[0-9])[^/?#\"'<>\\@:\x00-\x20]{16,256})@"
)
# A URL in a parameter of a URL in a parameter.
_DEEPEST_ENCODING = 3
_PARAMETER = lazy_pattern(r"[^&\"'<>\\`\x00-\x20\x7f]+")


class TextScanner:
    """All text rules. Exact and slow: the caller runs the gate first."""

    def __init__(self, names: Names, known: KnownValues, *, strict: bool) -> None:
        self._assignments = Assignments(names)
        self._known = known
        self.strict = strict
        self.clean_keys: set[Any] = set()
        """Keys of objects in which nothing was found, since they repeat; bounded by who adds them."""

    def find(self, text: str, *, opaque: bool = False) -> list[Finding]:
        """Return the secrets of ``text``: disjoint, in order, and not replaced yet.

        ``opaque``: the text is a protocol id, which can look random.
        """
        folded = fold(text)
        found = [*self._in_view(folded), *self._values(View(text)), *net_credentials(text)]
        view = unquote(folded)
        for _ in range(_DEEPEST_ENCODING):
            if view is None:
                break
            seen = {(one.start, one.end) for one in found}
            decoded = self._in_view(view)
            found += [_whole(text, one) for one in decoded if (one.start, one.end) not in seen]
            view = unquote(view)
        if opaque:
            found = [one for one in found if one.rule != "entropy"]
        return _disjoint(text, found)

    def tokens(self, text: str) -> list[Finding]:
        """Only the token shapes and known values of ``text``, which may itself be JSON."""
        view = fold(text)
        found = [
            *_mapped(view, _shapes(IndexedText(view.text))),
            *self._values(view),
            *self._values(View(text)),
        ]
        return _disjoint(text, found)

    def _in_view(self, view: View) -> Iterator[Finding]:
        text = view.text
        searched = IndexedText(text)
        found = [
            *_shapes(searched),
            *_userinfo(text),
            *self._assignments.find(searched),
            *command_credentials(searched),
        ]
        if self.strict:
            found += find_strict(text)
        yield from _mapped(view, found)
        yield from self._values(view)

    def _values(self, view: View) -> Iterator[Finding]:
        return _mapped(view, (Finding(*one) for one in self._known.find(view.text)))


def replace(text: str, found: Iterable[Finding], salt: bytes | None) -> str:
    """``text`` with each finding (disjoint, in order) replaced by its placeholder."""
    pieces: list[str] = []
    done = 0
    for one in found:
        mark = pseudonym(salt, text[one.start : one.end])
        pieces += (text[done : one.start], one.quote, mark, one.quote)
        done = one.end
    return "".join([*pieces, text[done:]])


def _mapped(view: View, found: Iterable[Finding]) -> Iterator[Finding]:
    for one in found:
        yield structs.replace(one, start=view.original(one.start), end=view.original(one.end))


@cache
def _shapes_by_clue() -> ClueIndex[int]:
    """Return the index of the shapes. Most programs have nothing that is looked up in it."""
    return ClueIndex((clue, at) for at, shape in enumerate(SHAPES) for clue in shape.clues())


def _shapes(searched: IndexedText) -> Iterator[Finding]:
    # In the order of the table: the first of two that find the same names the rule.
    for number in sorted(set(_shapes_by_clue().fitting(searched.index, searched.low))):
        shape = SHAPES[number]
        for match in shape.matches(searched):
            start, end = match.span("s") if "s" in shape.exact.groupindex else match.span()
            if shape.check is None or shape.check(searched.text[start:end]):
                yield Finding(start, end, shape.id)


def _userinfo(text: str) -> Iterator[Finding]:
    if "@" in text and "://" in text:
        for match in _USERINFO.finditer(text):
            yield Finding(*match.span("s"), "url.userinfo")


def _whole(text: str, found: Finding) -> Finding:
    """A bare value that seems to end at a percent-encoded character ends where its text does."""
    rest = _PARAMETER.match(text, found.start) if found.bare else None
    return structs.replace(found, end=max(found.end, rest.end())) if rest else found


def _disjoint(text: str, found: list[Finding]) -> list[Finding]:
    merged: list[Finding] = []
    for one in sorted(found, key=lambda one: (one.start, -one.end)):
        if one.start >= one.end or is_mark(text[one.start : one.end]):
            continue
        if merged and one.start < merged[-1].end:
            last = merged[-1]
            if one.end > last.end:
                merged[-1] = structs.replace(last, end=one.end)
        else:
            merged.append(one)
    return merged


# A run of backslashes of any length: text that was encoded as JSON several times. It is tried once,
# from its start, and all of it is the match even if it is not an escape, because millions of
# backslashes must not cost quadratic time. Text in other scripts can consist of wide escapes, so a
# row of them is one match. Escapes of surrogates and of the backslash itself stay unchanged. The
# first backslash is separate, because a pattern that starts with one character is searched ten
# times as fast.
_WIDE = r"u(?!005[cC]|[dD][89a-fA-F])[0-9A-Fa-f]{4}"
_ESCAPE = lazy_pattern(
    rf"\\(?:(?P<row>(?!u0022){_WIDE}(?:\\(?!u0022){_WIDE})*+)|(?P<more>\\*+)"
    rf"(?:(?P<short>[nrtbf/])|(?P<wide>{_WIDE})|(?P<byte>x[0189A-Fa-f][0-9A-Fa-f]))?)"
)
_SHORT = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "/": "/"}
_QUOTE = "u0022"
_ROW_STEP = len(r"\u0000")
_PERCENT = lazy_pattern(r"(?:%[2-7][0-9A-Fa-f])++")
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
    """Undo the escapes of JSON and of ``repr`` in ``text``, except the one in front of a quote.

    That escape shows how deep the quote is nested. Escaped backslashes stay for the same reason.
    Bytes written ``\\x00`` become NUL, because they only matter as a boundary.
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
"""Replacement of a match, and the number of source characters per character of it."""


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
