"""The ``diff`` command: compare two recordings."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from reenact.cli._event_summary import summary
from reenact.cli._output import (
    clip,
    count,
    escape_controls,
    json_line,
    size,
    value_lines,
    write_page,
)
from reenact.cli._parser import RECORDING, Command, Parser, columns, json_flag, positive, width_flag
from reenact.cli._recordings import recording_at
from reenact.diff.values import Difference
from reenact.format.canonical import digest
from reenact.format.json_path import join
from reenact.policy.index import load_policy
from reenact.policy.matching import Rules
from reenact.policy.paths import find_root
from reenact.store.reader import open_recording
from reenact.store.source import LogSource
from reenact.views.compare import KINDS, VERSION, Change, Comparison, LanePair, as_json, counts

__all__ = ["COMMANDS"]

_LONG = 2_000
"""Number of events from which the first difference is printed before everything is read."""


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("one", metavar="A", help=RECORDING)
    add("other", metavar="B", help="the recording to compare with it")
    add(
        "--ignore",
        action="append",
        default=[],
        metavar="PATH",
        help="ignore the value at this path, e.g. $.request.body.user, $..id or /request/*/id (repeatable)",
    )
    add("--policy", metavar="ID", help="also ignore what this policy ignores")
    add("--all", action="store_true", help="compare everything: draws, dates, ids, all headers")
    add("--lane", action="append", metavar="LANE", help="only this lane of A (repeatable)")
    add("--stat", action="store_true", help="print only the numbers")
    add("--html", metavar="FILE", help="write a page for a browser, with both side by side")
    add(
        "--limit",
        type=positive,
        metavar="N",
        help="show at most N differences on the page (default: 5,000; a page of 32 MiB has fewer)",
    )
    width_flag(parser)
    json_flag("the comparison as JSON")(parser)


def diff(args: argparse.Namespace) -> int:
    rules = _rules(args)
    with (
        open_recording(recording_at(args.one)) as one,
        open_recording(recording_at(args.other)) as other,
    ):
        if args.html is not None:
            return _page(one, other, rules, args)
        width = columns() if args.width is None else args.width
        first = None
        if not (args.json or args.stat or args.lane) and len(one) + len(other) >= _LONG:
            first = Printer(width, sys.stderr).first
        found = Comparison(one, other, rules, everything=args.all, first=first)
        return _compare(found, Printer(width), args)


def _compare(comparison: Comparison, printer: Printer, args: argparse.Namespace) -> int:
    found: Counter[str] = Counter()
    told: list[dict[str, Any]] = []
    for lane in _chosen(comparison.lanes(), args.lane):
        found += counts([lane])
        if args.json:
            told.append(as_json(lane))
        elif not args.stat:
            printer.lane(lane)
    left_out = comparison.left_out
    if args.json:
        print(json_line(_whole(args, told, found, left_out)))
    else:
        sys.stdout.flush()
        print(_sum(found, left_out), file=sys.stdout if args.stat else sys.stderr)
    return 1 if _differ(found) else 0


def _page(one: LogSource, other: LogSource, rules: Rules, args: argparse.Namespace) -> int:
    from reenact.views.html.compare_page import (
        MOST_CHANGES,
        Bounds,
        compare_contents,
        compare_page,
        left_out,
    )

    comparison = Comparison(one, other, rules, everything=args.all)
    lanes = _chosen(comparison.lanes(), args.lane)
    names = _names(one.path, other.path)
    bounds = Bounds(changes=args.limit or MOST_CHANGES)
    data = compare_contents(comparison, lanes, (names[0], one), (names[1], other), bounds)
    note = left_out(data)
    more = f"{note}; reenact diff without --html prints all of them" if note else ""
    document = compare_page(data, more).encode()
    target = Path(args.html)
    write_page(target, document)
    found = Counter(data["counts"])
    if args.json:
        about = {"path": str(target), "bytes": len(document), "same": not _differ(found)}
        left = {"left": data["left"]} if note else {}
        print(json_line({"version": VERSION, **about, "counts": data["counts"], **left}))
    else:
        print(f"wrote {escape_controls(str(target))}, {size(len(document))}", file=sys.stderr)
        if note:
            print(f"it shows {note}", file=sys.stderr)
            places = f"{escape_controls(str(args.one))} {escape_controls(str(args.other))}"
            print(f"for all of them: reenact diff {places}", file=sys.stderr)
        print(_sum(found, comparison.left_out), file=sys.stderr)
    return 1 if _differ(found) else 0


def _names(one: Path, other: Path) -> tuple[str, str]:
    """Return the shortest distinct names of the two recordings."""
    mine, theirs = one.resolve(), other.resolve()
    if mine.name != theirs.name or mine == theirs:
        return mine.name, theirs.name
    return f"{mine.parent.name}/{mine.name}", f"{theirs.parent.name}/{theirs.name}"


def _rules(args: argparse.Namespace) -> Rules:
    if args.policy is None:
        return Rules(ignore_paths=tuple(args.ignore))
    policy = load_policy(_root(), args.policy).policy
    return Rules(
        ignore_paths=(*args.ignore, *policy.ignore.paths),
        ignore_headers=policy.ignore.headers,
        ignore_query=policy.ignore.query,
        volatile=policy.volatile,
    )


def _root() -> Path:
    return find_root(Path.cwd(), os.environ)


def _chosen(lanes: Iterator[LanePair], names: list[str] | None) -> Iterator[LanePair]:
    return (lane for lane in lanes if not names or lane.one in names or lane.other in names)


def _differ(found: Counter[str]) -> bool:
    return any(found[kind] for kind in KINDS)


def _whole(
    args: argparse.Namespace,
    lanes: list[dict[str, Any]],
    found: Counter[str],
    left_out: Counter[str],
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "one": args.one,
        "other": args.other,
        "same": not _differ(found),
        "counts": {kind: found[kind] for kind in ("same", *KINDS)},
        "notCompared": dict(sorted(left_out.items())),
        "lanes": lanes,
    }


def _sum(found: Counter[str], left_out: Counter[str]) -> str:
    told = ", ".join(f"{found[kind]:,} {kind}" for kind in KINDS if found[kind])
    same = f"{found['same']:,} the same"
    line = f"reenact: {told}, {same}" if told else f"reenact: no difference, {same}"
    draws = sum(left_out.values())
    return f"{line} ({count(draws, 'draw')} not compared; --all does)" if draws else line


_LISTED = 20
_FIRST_FEW = 3
_MOST_WORDS = 100_000


class Printer:
    """Printer of differences.

    Conversations repeat earlier messages. A difference is printed once, and later occurrences refer to it.
    """

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout
        self._shown: dict[str, int] = {}

    def lane(self, lane: LanePair) -> None:
        """Print the differences of a pair of lanes; nothing for equal lanes."""
        if lane.changes:
            self._line(_heading(lane))
            for change in lane.changes:
                self._change(change)
            self._line("")

    def first(self, change: Change) -> None:
        """Print the first difference before the rest was read."""
        self._line(f"reenact: first difference at {_seqs(change)}  {_what(change)}")
        for found in change.differences[:_FIRST_FEW]:
            self._difference(found)
        self._out.flush()

    def _line(self, text: str) -> None:
        print(clip(text.rstrip(), self._width), file=self._out)

    def _change(self, change: Change) -> None:
        step = change.step
        self._line(f"  {change.kind:<8} {_seqs(change)}  {_what(change)}")
        differences = change.differences
        for found in differences[:_LISTED]:
            before = self._shown.setdefault(_gist(found), step.seq)
            if before == step.seq:
                self._difference(found)
            else:
                self._line(f"    {escape_controls(join(found.path))}: as at event {before}")
        if len(differences) > _LISTED:
            self._line(f"    and {count(len(differences) - _LISTED, 'more place')}")

    def _difference(self, found: Difference) -> None:
        kind = "" if found.kind == "changed" else f" ({found.kind})"
        self._line(f"    {escape_controls(join(found.path))}{kind}")
        for line in value_lines(found, self._out, self._width, indent=" " * 6, most=_MOST_WORDS):
            print(line, file=self._out)


def _heading(lane: LanePair) -> str:
    if lane.one is None or lane.other is None:
        before = {change.one.lane for change in lane.changes if change.one and change.other}
        if len(before) == 1 and all(change.kind == "moved" for change in lane.changes):
            return f"lane {lane.other}, in the first lane {before.pop()}"
        which = "second" if lane.one is None else "first"
        return f"lane {lane.one or lane.other}, only in the {which}"
    moved = "" if lane.one == lane.other else f", now {lane.other}"
    return f"lane {lane.one}{moved}: {count(lane.same, 'call')} the same"


def _seqs(change: Change) -> str:
    numbers = (str(step.seq) for step in (change.one, change.other) if step is not None)
    return f"event {' -> '.join(numbers)}"


def _what(change: Change) -> str:
    step = change.step
    told = summary(step.opening.type, step.opening.data)
    step.let_go()
    return told


def _gist(found: Difference) -> str:
    """Return a digest that is equal for equal differences."""
    return digest([found.kind, found.expected, found.observed])


COMMANDS = {
    "diff": Command(
        description="Puts two recordings side by side, lane by lane and call by call: what was added, removed, "
        "moved and changed, with JSON paths, and texts word by word. Dates, ids and other things "
        "that are new in every run do not count, nor do readings of clock and chance. As text, as "
        "JSON, or as one page for a browser. Exit code 1 when they differ.",
        example="reenact diff runs/monday last --ignore '$.request.body.user'",
        arguments=_arguments,
        run=diff,
    ),
}
