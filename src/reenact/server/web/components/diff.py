"""Differences as HTML: by path, and as two JSON documents side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import msgspec

from reenact.diff.sequences import WordChange, pair_up, word_diff
from reenact.server.web.components.formatting import count, pretty, value
from reenact.server.web.components.html import Html, fragment, tag

__all__ = [
    "PathChange",
    "path_changes",
    "side_by_side",
]

_WORDS: Final = 20_000
_LISTED: Final = 200
_SIZE: Final = 1 << 20
_ERROR: Final = {"type", "message"}


class PathChange(Protocol):
    """One place that differs: of a processor, of a comparison."""

    @property
    def op(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def before(self) -> Any: ...
    @property
    def after(self) -> Any: ...


def path_changes(
    found: Sequence[PathChange],
    *,
    none: str = "",
    beside: Callable[[PathChange], Html | None] | None = None,
) -> Html | None:
    """List the differences by path. ``beside`` renders an addition after each path."""
    if not found:
        return tag("p", none, class_="dim") if none else None
    items: list[Html] = []
    size = 0
    for one in found[:_LISTED]:
        if size > _SIZE:
            break
        items.append(
            tag(
                "li",
                tag("code", one.path or "/", class_="path"),
                (" ", beside(one)) if beside is not None else None,
                _gap(one),
            )
        )
        size += len(items[-1])
    more = len(found) - len(items)
    return fragment(
        tag("ul", *items, class_="gaps"),
        tag("p", f"and {count(more, 'place')} more", class_="dim") if more > 0 else None,
    )


def _gap(one: PathChange) -> Html:
    """Show a change: word by word for similar texts, otherwise the old and the new value."""
    before, after = one.before, one.after
    if isinstance(before, str) and isinstance(after, str) and len(before) + len(after) < _WORDS:
        pieces = word_diff(before, after)
        if _alike(pieces, before, after):
            return tag("div", *map(_piece, pieces), class_="words")
    said = _error if one.path.endswith("/error") else value
    return tag(
        "div", _side("del", "−", before, said), _side("ins", "+", after, said), class_="sides"
    )


def _alike(pieces: Sequence[WordChange], before: str, after: str) -> bool:
    """Return whether both texts share at least half of the longer one."""
    same = sum(len(text) for kind, text in pieces if kind == "same")
    return 2 * same >= max(len(before), len(after))


def _piece(piece: WordChange) -> Html:
    kind, text = piece
    name = {"removed": "del", "added": "ins"}.get(kind, "span")
    return tag(name, text)


def _side(name: str, mark: str, item: Any, said: Callable[[Any], Html]) -> Html | None:
    if item is msgspec.UNSET:
        return None
    return tag(name, tag("span", mark, aria_hidden="true"), tag("div", said(item)))


def _error(item: Any) -> Html:
    """Show an exception with its original message, including line breaks."""
    if not isinstance(item, dict) or {*item} != _ERROR:
        return value(item)
    return fragment(tag("b", str(item["type"])), " ", str(item["message"]))


_MOST: Final = 4_000
_AROUND: Final = 3
_LONGEST: Final = 2_000

_Row = tuple[str | None, str | None]


def side_by_side(
    before: Any, after: Any, names: tuple[str, str] = ("before", "after"), *, caption: str = ""
) -> Html:
    """Return a table of both documents, or a note if they are too long."""
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
    return pair_up(left, right, str, in_order=True)


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
