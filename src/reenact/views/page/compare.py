"""The page about two runs, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.store.source import SeekableSource
from reenact.views.comparing import Comparison, LanePair, Same
from reenact.views.describing import KINDS, counts
from reenact.views.page.changes import Changes
from reenact.views.page.html import document
from reenact.views.saying import meaning_of
from reenact.views.skimming import Seen, Skimmer

__all__ = ["MOST_CHANGES", "Bounds", "compare_contents", "compare_page", "left_out"]

MOST_CHANGES = 5_000

_TOOLS = """\
<span id="kinds" role="group" aria-label="kinds of differences"></span>
<input id="find" type="search" placeholder="search ( / )" aria-label="search">
<button id="back" title="previous difference ( p )">&uarr;</button>
<button id="on" title="next difference ( n )">&darr;</button>
"""

_BODY = """\
<main id="runs"></main>
"""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a page has at most: differences, calls that are the same, and about how many bytes of
    content."""

    changes: int = MOST_CHANGES
    same: int = 50_000
    size: int = 32 << 20


def compare_page(contents: Any, note: str = "") -> str:
    """The page, about what :func:`compare_contents` has made of a comparison. ``note``: see
    :func:`document`."""
    title = f"{contents['one']['name']} ↔ {contents['other']['name']}"
    return document("compare", title, contents, tools=_TOOLS, body=_BODY, note=note)


def left_out(contents: Any) -> str:
    """A phrase about the differences that the page does not show; empty when it shows all."""
    whole = sum(contents["counts"][kind] for kind in KINDS)
    left = contents["left"]
    return f"{whole - left:,} of {whole:,} differences" if left else ""


def compare_contents(
    comparison: Comparison,
    lanes: Iterable[LanePair],
    one: tuple[str, SeekableSource],
    other: tuple[str, SeekableSource],
    bounds: Bounds | None = None,
) -> dict[str, Any]:
    """Everything that the page knows. ``lanes`` are those of ``comparison``, or some of them; the
    others are the names that people know the recordings by, and what they are read from. Of a long
    comparison the page has the first differences and the first calls that are the same; ``left`` is the
    number of differences that it does not have."""
    changes = Changes(comparison.said)
    most = bounds or Bounds()
    same, left = most.same, 0
    names: dict[tuple[str, str], int] = {}
    found: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    for lane in lanes:
        found += counts([lane])
        parts: list[dict[str, Any]] = []
        for part in lane.parts:
            if isinstance(part, Same):
                pairs = [_pair(*pair, names) for pair in part.pairs[:same]]
                same -= len(pairs)
                parts.append({"same": pairs, "unlisted": len(part.pairs) - len(pairs)})
            elif left or changes.number >= most.changes or changes.size > most.size:
                left += 1
            else:
                parts.append(changes.told(part))
        shown.append({"one": lane.one, "other": lane.other, "parts": parts})
    return {
        "one": _about(*one, comparison.one),
        "other": _about(*other, comparison.other),
        "counts": {kind: found[kind] for kind in ("same", *KINDS)},
        "notCompared": sum(comparison.left_out.values()),
        "lanes": shown,
        "left": left,
        "names": [list(name) for name in names],
        "table": changes.table,
    }


def _pair(one: Seen, other: Seen, names: dict[tuple[str, str], int]) -> list[int]:
    name = names.setdefault((other.kind, other.name), len(names))
    return [one.first, other.first, name]


def _about(name: str, source: SeekableSource, steps: Skimmer) -> dict[str, Any]:
    """A run in numbers."""
    manifest = source.manifest()
    tokens: Counter[str] = Counter()
    took = 0
    for seen in steps.answered:
        step = steps.step(seen)
        meaning = meaning_of(step)
        for kind in ("input", "output"):
            tokens[kind] += (meaning.usage or {}).get(kind, 0) if meaning is not None else 0
        took += 0 if step.closing is None else step.closing.ts - step.opening.ts
    last = manifest.event_count
    return {
        "name": name,
        "createdAt": manifest.created_at,
        "status": manifest.status,
        "calls": sum(map(len, steps.lanes.values())),
        "lanes": len(steps.lanes),
        "models": len(steps.answered),
        "tokens": dict(tokens),
        "modelTime": took,
        "time": source.at(last).ts - source.at(1).ts if last else 0,
    }
