"""``reenact search``: calls in many recordings."""

from __future__ import annotations

import argparse
import os
import sys
from datetime import datetime
from pathlib import Path

from reenact.cli.parsing import columns
from reenact.cli.render import count, escape_controls, json_line
from reenact.cli.search_text import Printer, as_json, command_for, page_for
from reenact.errors import UsageError
from reenact.policy.paths import FOLDER, find_root
from reenact.search.answering import Question
from reenact.search.asking import read_terms
from reenact.search.moments import read_moment
from reenact.search.searching import Result
from reenact.search.searching import search as run_search
from reenact.search.wishes import Wishes

__all__ = ["search"]


def search(args: argparse.Namespace) -> int:
    """The command ``search``."""
    question = _question(args)
    root = find_root(Path.cwd(), os.environ)
    places = [Path(place).absolute() for place in args.places] or [_usual(root)]
    result = run_search(root, places, question, environ=os.environ, say=_say, anew=args.rebuild)
    for trouble in result.troubles:
        _say(f"not searched: {trouble.problem}")
    if args.json:
        print(json_line(as_json(result, question)))
    elif args.count:
        print(result.answer.total)
    else:
        printer = Printer(columns() if args.width is None else args.width)
        printer.runs(result.answer) if args.runs else printer.hits(result.answer, question.terms)
        sys.stdout.flush()
        _sum(result, places)
    return 0


def _say(text: str) -> None:
    print(f"reenact: {escape_controls(text)}", file=sys.stderr)


def _usual(root: Path) -> Path:
    ours = root / FOLDER
    return ours if ours.is_dir() else Path.cwd()


def _question(args: argparse.Namespace) -> Question:
    now = datetime.now().astimezone()
    if args.diverged:
        _check_code(args.diverged)
    wishes = Wishes(
        types=tuple(args.type),
        models=tuple(args.model),
        providers=tuple(args.provider),
        tools=tuple(args.tool),
        urls=tuple(args.url),
        hosts=tuple(args.host),
        methods=tuple(args.method),
        statuses=tuple(args.status),
        boundaries=tuple(args.boundary),
        lanes=tuple(args.lane),
        runs=tuple(args.run_status),
        failed=args.error,
        diverged=args.diverged,
        since=None if args.since is None else read_moment(args.since, now),
        until=None if args.until is None else read_moment(args.until, now, end=True),
    )
    terms = read_terms(args.text, args.unwanted)
    limit = 0 if args.count or args.runs else args.limit
    return Question(terms=terms, wishes=wishes, limit=limit)


def _check_code(code: str) -> None:
    from typing import get_args

    from reenact.engine.divergence.model import Code

    if code not in get_args(Code):
        raise UsageError(
            f"{code!r} is no kind of divergence",
            hint=f"one of {', '.join(get_args(Code))}; for any, --diverged as the last word",
        )


def _sum(result: Result, places: list[Path]) -> None:
    answer = result.answer
    if not answer.total:
        where = ", ".join(str(place) for place in places)
        _say(f"no hit in {count(result.searched, 'recording')} under {where}")
        return
    shown = sum(len(run.hits) for run in answer.runs)
    line = f"{count(answer.total, 'hit')} in {count(len(answer.runs), 'recording')}"
    if 0 < shown < answer.total:
        line += f", the first {shown:,} shown (--limit)"
    _say(line)
    for run in answer.runs[:1]:
        for hit in run.hits[:1]:
            _say(f"look at it: {command_for(run, hit)}")
            if hit.seq and run.status != "unfinished":
                _say(f"in a browser: {page_for(run)}, then #event-{hit.seq} there")
