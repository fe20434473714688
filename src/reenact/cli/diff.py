"""``reenact diff``: two recordings side by side."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reenact.cli.diff_text import Printer
from reenact.cli.pages import write_page
from reenact.cli.parsing import columns
from reenact.cli.places import recording_at
from reenact.cli.render import count, escape_controls, json_line, size
from reenact.policy.index import load_policy
from reenact.policy.matching import Rules
from reenact.policy.paths import find_root
from reenact.store.reader import open_recording
from reenact.store.source import LogSource
from reenact.views.compare.json_report import KINDS, VERSION, as_json, counts
from reenact.views.compare.runs import Comparison, LanePair

__all__ = ["diff"]

_LONG = 2_000
"""Events from which on the first difference is told before all is read."""


def diff(args: argparse.Namespace) -> int:
    """The command ``diff``."""
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
    """What to call them: their names, or as much of their paths as tells them apart."""
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
