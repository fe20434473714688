"""HTML page about two runs, side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from reenact.diff.sequences import word_diff
from reenact.diff.values import Difference
from reenact.format.json_path import join
from reenact.store.source import SeekableSource
from reenact.views.call_digests import DigestedCall, DigestReader
from reenact.views.compare import KINDS, Change, Comparison, LanePair, Same, counts
from reenact.views.content import (
    conversation,
    meaning_of,
    message_pairs,
    without_messages,
    words_of,
)
from reenact.views.html.document import document
from reenact.views.html.values import key_of, page_value
from reenact.views.recorded_calls import RecordedCall

__all__ = [
    "MOST_CHANGES",
    "Bounds",
    "Changes",
    "compare_contents",
    "compare_page",
    "left_out",
]

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
    """Limits of a page: differences, equal calls, and approximate bytes of content."""

    changes: int = MOST_CHANGES
    same: int = 50_000
    size: int = 32 << 20


def compare_page(contents: Any, note: str = "") -> str:
    """Return the page for the result of :func:`compare_contents`.

    ``note`` is passed to :func:`document`.
    """
    title = f"{contents['one']['name']} ↔ {contents['other']['name']}"
    return document("compare", title, contents, tools=_TOOLS, body=_BODY, note=note)


def left_out(contents: Any) -> str:
    """Return a phrase about the differences that the page does not show, or an empty string."""
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
    """Return the data of the page.

    ``lanes`` are all or some lanes of ``comparison``; ``names`` are the names of the recordings. A
    long comparison is limited to the first differences and equal calls; ``left`` is the number of
    omitted differences.
    """
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


def _pair(one: DigestedCall, other: DigestedCall, names: dict[tuple[str, str], int]) -> list[int]:
    name = names.setdefault((other.kind, other.name), len(names))
    return [one.first, other.first, name]


def _about(name: str, source: SeekableSource, steps: DigestReader) -> dict[str, Any]:
    """Return the statistics of a run."""
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


_SHORT = 80
_MOST_PLACES = 200
_MOST_WORDS = 100_000
_TAGS = {"same": 0, "removed": 1, "added": 2}


class Changes:
    """Writer of changes. ``said`` returns the comparable content of a step."""

    def __init__(self, said: Callable[[RecordedCall], Any]) -> None:
        self.table: list[Any] = []
        """The values that changes refer to by their place here."""
        self.size = 0
        """Characters of what was written, about."""
        self.number = 0
        """Changes that were written."""
        self._place: dict[bytes, int] = {}
        self._before: dict[bytes, int] = {}
        self._gaps: dict[bytes, int] = {}
        self._said = said
        self._seq = 0

    def told(self, change: Change) -> dict[str, Any]:
        """Return all data about ``change``."""
        one, other = change.one, change.other
        self._seq = change.step.seq
        told: dict[str, Any] = {
            "kind": change.kind,
            "one": None if one is None else self._step(one),
            "other": None if other is None else self._step(other),
        }
        found = change.differences
        if change.kind == "changed":
            told["places"] = [self._difference(gap) for gap in found[:_MOST_PLACES]]
            told["more"] = max(0, len(found) - _MOST_PLACES)
        self._put_whole(told, one, other)
        if change.kind == "changed":
            new = any("one" in turn and "again" not in turn for turn in told.get("talk", ()))
            told["repeats"] = self._repeats(found) and not new
        for step in filter(None, (one, other)):
            step.let_go()
        self.number += 1
        self.size += len(json.dumps(told, ensure_ascii=False))
        return told

    def _repeats(self, found: list[Difference]) -> bool:
        """Return whether an earlier change has the same differences."""
        firsts = [self._gaps.setdefault(_gist(gap), self._seq) for gap in found]
        return self._seq not in firsts

    def _step(self, step: RecordedCall) -> dict[str, Any]:
        request = step.asked.get("request")
        response = step.answered.get("response")
        asked = request if isinstance(request, dict) else {}
        answer = response if isinstance(response, dict) else {}
        closing = step.closing or step.opening
        return {
            "seq": step.seq,
            "lane": step.lane,
            "kind": step.kind,
            "name": step.name,
            "method": asked.get("method") if isinstance(asked.get("method"), str) else None,
            "url": asked.get("url") if isinstance(asked.get("url"), str) else None,
            "status": answer.get("status") if type(answer.get("status")) is int else None,
            "ms": closing.ts - step.opening.ts,
        }

    def _put_whole(
        self, told: dict[str, Any], one: RecordedCall | None, other: RecordedCall | None
    ) -> None:
        """Add the comparable content; the conversation of a model call is shown separately."""
        left, right = conversation(one), conversation(other)
        if left is not None or right is not None:
            told["talk"] = [*self._talk(left or [], right or [])]
        for name, step in (("one", one), ("other", other)):
            if step is not None:
                said = self._said(step)
                said = without_messages(said) if "talk" in told else said
                told[name]["whole"] = self._in(page_value(said))

    def _talk(self, mine: list[Any], theirs: list[Any]) -> Iterator[dict[str, Any]]:
        same: list[int] = []
        for left, right in message_pairs(mine, theirs):
            if left == right:
                same.append(self._put(left))
                continue
            if same:
                yield {"both": same}
                same = []
            yield self._turn(left, right)
        if same:
            yield {"both": same}

    def _turn(self, left: Any, right: Any) -> dict[str, Any]:
        told: dict[str, Any] = {"one": self._in(left), "other": self._in(right)}
        if left is None or right is None:
            return told
        before = self._before.setdefault(key_of([words_of(left), words_of(right)]), self._seq)
        if before != self._seq:
            return {**told, "again": before}
        return {
            **told,
            "words": {name: self._in(_words(*texts)) for name, texts in _texts(left, right)},
        }

    def _difference(self, gap: Difference) -> dict[str, Any]:
        told: dict[str, Any] = {"path": join(gap.path), "kind": gap.kind}
        one, other = gap.expected, gap.observed
        if gap.kind == "changed" and isinstance(one, str) and isinstance(other, str):
            return {**told, "words": self._in(_words(one, other))}
        if gap.kind != "added":
            told["one"] = self._in(page_value(one))
        if gap.kind != "removed":
            told["other"] = self._in(page_value(other))
        return told

    def _in(self, value: Any) -> Any:
        """Return a short ``value`` unchanged, and a reference into the table for a long one."""
        if value is None or len(str(value)) <= _SHORT:
            return {"v": value}
        return {"t": self._put(value)}

    def _put(self, value: Any) -> int:
        key = key_of(value)
        place = self._place.setdefault(key, len(self.table))
        if place == len(self.table):
            self.table.append(value)
            self.size += len(repr(value))
        return place


def _gist(gap: Difference) -> bytes:
    """Return a key that is equal for equal differences."""
    return key_of([gap.kind, gap.expected, gap.observed])


def _texts(left: Any, right: Any) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the parts of two messages that differ, with both texts."""
    for name in ("text", "reasoning"):
        if left.get(name) and right.get(name) and left[name] != right[name]:
            yield name, (left[name], right[name])
    for name in ("calls", "results"):
        pairs = zip(left.get(name, ()), right.get(name, ()), strict=False)
        for index, (mine, theirs) in enumerate(pairs):
            if mine[0] == theirs[0] and mine[1] != theirs[1]:
                yield f"{name}{index}", (_text(mine[1]), _text(theirs[1]))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


def _words(one: str, other: str) -> list[list[Any]]:
    """Return the pieces of two texts: 0 is in both, 1 in the first, 2 in the second."""
    if len(one) + len(other) > _MOST_WORDS:
        cut = _MOST_WORDS // 2
        return [[1, one[:cut]], [2, other[:cut]]]
    return [[_TAGS[kind], text] for kind, text in word_diff(one, other)]
