"""The page about two runs, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from reenact.store.source import SeekableSource
from reenact.views.comparing import Comparison, LanePair, Same
from reenact.views.describing import KINDS, counts
from reenact.views.page.changes import Changes
from reenact.views.page.html import document
from reenact.views.saying import meaning_of
from reenact.views.skimming import Seen, Skimmer

__all__ = ["compare_contents", "compare_page"]

_TOOLS = """\
<span id="kinds" role="group" aria-label="kinds of differences"></span>
<input id="find" type="search" placeholder="search ( / )" aria-label="search">
<button id="back" title="previous difference ( p )">&uarr;</button>
<button id="on" title="next difference ( n )">&darr;</button>
"""

_BODY = """\
<main id="runs"></main>
"""


def compare_page(contents: Any) -> str:
    """The page, about what :func:`compare_contents` has made of a comparison."""
    title = f"{contents['one']['name']} ↔ {contents['other']['name']}"
    return document("compare", title, contents, tools=_TOOLS, body=_BODY)


def compare_contents(
    comparison: Comparison,
    lanes: Iterable[LanePair],
    one: tuple[str, SeekableSource],
    other: tuple[str, SeekableSource],
) -> dict[str, Any]:
    """Everything that the page knows. ``lanes`` are those of ``comparison``, or some of them; the
    others are the names that people know the recordings by, and what they are read from."""
    changes = Changes(comparison.said)
    names: dict[tuple[str, str], int] = {}
    found: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    for lane in lanes:
        found += counts([lane])
        shown.append(
            {
                "one": lane.one,
                "other": lane.other,
                "parts": [
                    {"same": [_pair(*pair, names) for pair in part.pairs]}
                    if isinstance(part, Same)
                    else changes.told(part)
                    for part in lane.parts
                ],
            }
        )
    return {
        "one": _about(*one, comparison.one),
        "other": _about(*other, comparison.other),
        "counts": {kind: found[kind] for kind in ("same", *KINDS)},
        "notCompared": sum(comparison.left_out.values()),
        "lanes": shown,
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
