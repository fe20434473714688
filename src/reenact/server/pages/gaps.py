"""What differs, place by place, as HTML (pure)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from reenact.diff.sequences import WordChange, word_diff
from reenact.server.pages.markup import Html, fragment, tag
from reenact.server.pages.saying import count
from reenact.server.pages.values import value

__all__ = ["Gap", "changes"]

_WORDS: Final = 20_000
_LISTED: Final = 200
_SIZE: Final = 1 << 20
_ERROR: Final = {"type", "message"}


class Gap(Protocol):
    """One place that differs: of a processor, of a comparison."""

    @property
    def op(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def before(self) -> Any: ...
    @property
    def after(self) -> Any: ...


def changes(
    found: Sequence[Gap], *, none: str = "", beside: Callable[[Gap], Html | None] | None = None
) -> Html | None:
    """What differs, place by place; ``beside`` makes what stands behind the name of a place."""
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


def _gap(one: Gap) -> Html:
    """Texts that are alike word by word; all else as what was, and what is."""
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
    """At least half of the longer one is in both."""
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
    """An exception with its message as it was written, lines and all."""
    if not isinstance(item, dict) or {*item} != _ERROR:
        return value(item)
    return fragment(tag("b", str(item["type"])), " ", str(item["message"]))
