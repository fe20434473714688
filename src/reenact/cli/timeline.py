"""``reenact show --timeline``: lanes as rows, calls as bars."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from reenact.cli.parsing import USUAL, columns
from reenact.cli.render import count, escape_controls, json_line, span
from reenact.cli.reports import divergences_in
from reenact.cli.screen import screen_of
from reenact.cli.timeline_text import Drawing
from reenact.engine.divergence.model import Divergence
from reenact.format import lane as lane_names
from reenact.format.event import Event
from reenact.store.source import LogSource
from reenact.views.calls import MARKS, Step, Steps, read_steps
from reenact.views.timeline.layout import lay_out
from reenact.views.timeline.model import Span, read_spans

__all__ = ["timeline"]

VERSION = 1
_MOST_TOLD = 10

Wanted = Callable[[Iterable[Event]], Iterable[Event]]


def timeline(path: Path, source: LogSource, args: argparse.Namespace, wanted: Wanted) -> int:
    """Print it. ``wanted`` picks events; a call is shown when one of its events is picked."""
    found = [] if args.report is None else divergences_in(Path(args.report))
    steps = read_steps(source)
    chosen = _chosen(steps, wanted, args.limit)
    bars = read_spans(chosen, {one.event_seq for one in found if one.event_seq is not None})
    zero, last = _ends(source, steps)
    if args.json:
        print(json_line(_as_json(path, bars, steps, found, zero, last)))
    elif bars:
        _draw(path, source, args, bars, steps, (zero, last))
        _tell(steps, found)
    if not bars:
        print(f"no call matches, in {count(len(source), 'event')}", file=sys.stderr)
    return 0


def _chosen(steps: Steps, wanted: Wanted, limit: int | None) -> list[Step]:
    picked = [step for step in _calls(steps) if any(True for _ in wanted(_events(step)))]
    return sorted(picked, key=lambda step: step.seq)[:limit]


def _calls(steps: Steps) -> Iterator[Step]:
    return (step for lane in steps.lanes.values() for step in lane if step.kind not in MARKS)


def _events(step: Step) -> list[Event]:
    several = step.closing is not None and step.closing is not step.opening
    return [step.opening, step.closing] if several and step.closing else [step.opening]


def _ends(source: LogSource, steps: Steps) -> tuple[int, int]:
    """When the recording began and ended. A call may have begun before the first event was written."""
    if not len(source):
        return 0, 0
    firsts = [lane[0].began for lane in steps.lanes.values() if lane]
    return min([source.at(1).ts, *firsts]), source.at(len(source)).ts


def _draw(
    path: Path,
    source: LogSource,
    args: argparse.Namespace,
    bars: list[Span],
    steps: Steps,
    ends: tuple[int, int],
) -> None:
    zero, last = ends
    start, end = zero, max(last, max(bar.end for bar in bars))
    if _is_filtered(args):
        start, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    width = (columns() if args.width is None else args.width) or USUAL
    drawing = Drawing(screen_of(sys.stdout), width, bars)
    plan = lay_out(bars, drawing.room, start=start, end=end, zero=zero)
    lanes = len({bar.lane for bar in bars})
    whole = sum(1 for _ in _calls(steps))
    some = "" if len(bars) == whole else f"{len(bars):,} of "
    print(
        f"{escape_controls(str(path))}: {some}{count(whole, 'call')} in {count(lanes, 'lane')}, "
        f"{span(last - zero)}, status {source.manifest().status}"
    )
    for line in drawing.lines(plan):
        print(line)


def _is_filtered(args: argparse.Namespace) -> bool:
    return any((args.type, args.lane, args.grep, args.first, args.last, args.limit))


def _tell(steps: Steps, found: list[Divergence]) -> None:
    """What the picture does not show."""
    for one in found[:_MOST_TOLD]:
        place = f"event {one.event_seq}, " if one.event_seq is not None else ""
        where = f" at {escape_controls(one.json_path)}" if one.json_path else ""
        print(
            f"  diverged: {place}lane {escape_controls(one.lane)}: {escape_controls(one.code)}{where}"
        )
    if len(found) > _MOST_TOLD:
        print(f"  and {count(len(found) - _MOST_TOLD, 'more divergence')}")
    if draws := sum(steps.left_out.values()):
        print(f"  not shown: {count(draws, 'draw')} of clock and chance")


def _as_json(
    path: Path, bars: list[Span], steps: Steps, found: list[Divergence], zero: int, last: int
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "path": str(path),
        "start": zero,
        "spanMs": last - zero,
        "lanes": [_lane(lane, number) for lane, number in _lanes(bars).items()],
        "calls": [_call(bar, zero) for bar in bars],
        "divergences": [one.to_json() for one in found],
        "notShown": dict(sorted(steps.left_out.items())),
    }


def _lanes(bars: list[Span]) -> dict[str, int]:
    numbers = Counter(bar.lane for bar in bars)
    return {lane: numbers[lane] for lane in sorted(numbers, key=lane_names.order)}


def _lane(lane: str, calls: int) -> dict[str, Any]:
    return {"lane": lane, "parent": lane.rpartition(".")[0] or None, "calls": calls}


def _call(bar: Span, zero: int) -> dict[str, Any]:
    told = msgspec.to_builtins(bar)
    return {**told, "start": bar.start - zero, "end": bar.end - zero}
