"""Two JSON documents side by side, line by line (pure): what is the same is folded, what is not is
marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from reenact.diff.sequences import align
from reenact.server.pages.markup import Html, fragment, tag
from reenact.server.pages.saying import count
from reenact.server.pages.values import pretty

__all__ = ["side_by_side"]

_MOST: Final = 4_000
_AROUND: Final = 3
_LONGEST: Final = 2_000

_Row = tuple[str | None, str | None]


def side_by_side(
    before: Any, after: Any, names: tuple[str, str] = ("before", "after"), *, caption: str = ""
) -> Html:
    """A table. Documents that are too long for one are said to be so."""
    left, right = pretty(before).split("\n"), pretty(after).split("\n")
    if len(left) + len(right) > _MOST:
        return tag("p", f"{count(len(left), 'line')}: too long to be shown here", class_="dim")
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    rows = [*_rows(left, right)]
    return tag(
        "table",
        tag("caption", caption, class_="unseen") if caption else None,
        tag("thead", head),
        tag("tbody", *_shown(rows)),
        class_="lines",
    )


def _rows(left: list[str], right: list[str]) -> Iterator[_Row]:
    """Lines that stand beside each other."""
    gone: list[str] = []
    new: list[str] = []
    for one, other in align(left, right):
        if one is not None and other is not None:
            yield from _apart(gone, new)
            gone, new = [], []
            yield left[one], right[other]
        elif one is not None:
            gone.append(left[one])
        elif other is not None:
            new.append(right[other])
    yield from _apart(gone, new)


def _apart(gone: list[str], new: list[str]) -> Iterator[_Row]:
    for place in range(max(len(gone), len(new))):
        yield (
            gone[place] if place < len(gone) else None,
            new[place] if place < len(new) else None,
        )


def _shown(rows: list[_Row]) -> Iterator[Html]:
    near = {
        place
        for at, (one, other) in enumerate(rows)
        if one != other
        for place in range(at - _AROUND, at + _AROUND + 1)
    }
    skipped = 0
    for at, row in enumerate(rows):
        if at in near or not near:
            yield from _skip(skipped)
            skipped = 0
            yield _row(row)
        else:
            skipped += 1
    yield from _skip(skipped)


def _skip(number: int) -> Iterator[Html]:
    if number:
        yield tag(
            "tr", tag("td", f"… {count(number, 'line')} the same", colspan=2), class_="skipped"
        )


def _row(row: _Row) -> Html:
    one, other = row
    if one == other:
        return tag("tr", _cell(one, ""), _cell(other, ""))
    return tag("tr", _cell(one, "del"), _cell(other, "ins"))


def _cell(line: str | None, mark: str) -> Html:
    if line is None:
        return tag("td", class_="empty")
    text = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return tag("td", tag(mark, text) if mark else fragment(text), class_=mark or None)
