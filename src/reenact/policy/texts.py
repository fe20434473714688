"""Finding and replacing the secrets in one text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import structs

from reenact.policy.assignments import Assignments
from reenact.policy.behind import Finding
from reenact.policy.command_lines import command_credentials, net_credentials
from reenact.policy.folding import View, fold, unquote
from reenact.policy.known import Known
from reenact.policy.names import Names
from reenact.policy.patterns import late
from reenact.policy.placeholder import is_mark, pseudonym
from reenact.policy.searched import ClueIndex, Searched
from reenact.policy.shapes import SHAPES
from reenact.policy.strict import find_strict

__all__ = ["Texts", "replace"]

# The whole of it goes: a token may stand in the place of the user, too.
_USERINFO = late(
    r"://(?P<s>[^/?#\"'<>\\@:\x00-\x20]{0,256}:[^/?#\"'<>\\\x00-\x20]{1,512}"
    r"|(?=[^@]{0,256}[0-9])[^/?#\"'<>\\@:\x00-\x20]{16,256})@"
)
# A URL in a parameter of a URL in a parameter.
_DEEPEST_ENCODING = 3
_BY_CLUE = ClueIndex((clue, at) for at, shape in enumerate(SHAPES) for clue in shape.clues())
_PARAMETER = late(r"[^&\"'<>\\`\x00-\x20\x7f]+")


class Texts:
    """All rules for text. Exact and slow: the caller asks the gate first."""

    def __init__(self, names: Names, known: Known, *, strict: bool) -> None:
        self._assignments = Assignments(names)
        self._known = known
        self.strict = strict
        self.clean_keys: set[Any] = set()
        """Keys of objects in which nothing was found, since they repeat; bounded by who adds them."""

    def find(self, text: str, *, opaque: bool = False) -> list[Finding]:
        """The secrets of ``text``: disjoint, in order, without those that are replaced already.

        ``opaque``: the text is a protocol id, which may well look random.
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
            *_mapped(view, _shapes(Searched(view.text))),
            *self._values(view),
            *self._values(View(text)),
        ]
        return _disjoint(text, found)

    def _in_view(self, view: View) -> Iterator[Finding]:
        text = view.text
        searched = Searched(text)
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


def _shapes(searched: Searched) -> Iterator[Finding]:
    # In the order of the table: the first of two that find the same names the rule.
    for number in sorted(set(_BY_CLUE.fitting(searched.index, searched.low))):
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
