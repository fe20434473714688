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
from reenact.cli.parsing import columns
from reenact.cli.places import recording_at
from reenact.cli.render import count, json_line
from reenact.policy.index import load_policy
from reenact.policy.matching import Rules
from reenact.policy.places import find_root
from reenact.store.reading import open_recording
from reenact.views.comparing import LanePair, compare
from reenact.views.describing import VERSION, as_json, counts
from reenact.views.steps import Steps, read_steps

__all__ = ["diff"]

_KINDS = ("changed", "added", "removed", "moved")


def diff(args: argparse.Namespace) -> int:
    """The command ``diff``."""
    rules = _rules(args)
    with (
        open_recording(recording_at(args.one)) as one,
        open_recording(recording_at(args.other)) as other,
    ):
        mine, theirs = read_steps(one, draws=args.all), read_steps(other, draws=args.all)
        return _compare(mine, theirs, rules, args)


def _compare(mine: Steps, theirs: Steps, rules: Rules, args: argparse.Namespace) -> int:
    pairs = _chosen(compare(mine, theirs, rules, everything=args.all), args.lane)
    lanes: list[LanePair] = []
    printer = Printer(columns() if args.width is None else args.width)
    for lane in pairs:
        lanes.append(lane)
        if not (args.json or args.stat):
            printer.lane(lane)
    found, left_out = counts(lanes), mine.left_out + theirs.left_out
    if args.json:
        print(json_line(_whole(args, lanes, found, left_out)))
    else:
        sys.stdout.flush()
        print(_sum(found, left_out), file=sys.stdout if args.stat else sys.stderr)
    return 1 if _differ(found) else 0


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
    return any(found[kind] for kind in _KINDS)


def _whole(
    args: argparse.Namespace, lanes: list[LanePair], found: Counter[str], left_out: Counter[str]
) -> dict[str, Any]:
    return {
        "version": VERSION,
        "one": args.one,
        "other": args.other,
        "same": not _differ(found),
        "counts": {kind: found[kind] for kind in ("same", *_KINDS)},
        "notCompared": dict(sorted(left_out.items())),
        "lanes": [as_json(lane) for lane in lanes],
    }


def _sum(found: Counter[str], left_out: Counter[str]) -> str:
    told = ", ".join(f"{found[kind]:,} {kind}" for kind in _KINDS if found[kind])
    same = f"{found['same']:,} the same"
    line = f"reenact: {told}, {same}" if told else f"reenact: no difference, {same}"
    draws = sum(left_out.values())
    return f"{line} ({count(draws, 'draw')} not compared; --all does)" if draws else line
