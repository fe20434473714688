"""The ``search`` command: find calls in many recordings."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from reenact.cli._output import cell_width, clip, count, escape_controls, json_line, rows
from reenact.cli._parser import Command, Parser, columns, json_flag, positive, width_flag
from reenact.errors import UsageError
from reenact.policy.paths import FOLDER, find_root
from reenact.search.extraction import CALL
from reenact.search.query import Filters, Term, clock_time, excerpt, moment, read_moment, read_terms
from reenact.search.search import Hit, Passage, Query, QueryResult, Result, Run
from reenact.search.search import search as run_search

__all__ = ["COMMANDS"]

_FILTERS = (
    (
        "type",
        "types",
        "TYPE",
        "only calls of this type: llm, tool, network, process, mcp … (repeatable)",
    ),
    ("model", "models", "MODEL", "only this model; * stands for anything (repeatable)"),
    ("provider", "providers", "NAME", "only models of this provider (repeatable)"),
    ("tool", "tools", "NAME", "only calls of this tool (repeatable)"),
    ("url", "urls", "TEXT", "only HTTP whose URL has this in it (repeatable)"),
    ("host", "hosts", "HOST", "only HTTP to this host (repeatable)"),
    ("method", "methods", "METHOD", "only HTTP with this method (repeatable)"),
    (
        "status",
        "statuses",
        "CODE",
        "only HTTP with this status: 404, 5xx; an exit code (repeatable)",
    ),
    (
        "boundary",
        "boundaries",
        "NAME",
        "only this boundary: net.fetch, process.exec, a function (repeatable)",
    ),
    ("lane", "lanes", "LANE", "only this lane and those under it (repeatable)"),
    (
        "run",
        "runs",
        "STATUS",
        "only ok, error, recovered or unfinished recordings, or failed programs",
    ),
)
"""Option, field of :class:`Filters`, placeholder and help."""


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "text",
        nargs="*",
        metavar="TEXT",
        help="a word or a part of one, wor* at the beginning of one, 'several words' as a phrase, "
        "'\"a phrase\" word -not'; all must be in one call",
    )
    add("--not", action="append", default=[], dest="unwanted", metavar="TEXT", help="not this")
    add(
        "--in",
        action="append",
        default=[],
        dest="places",
        metavar="DIR",
        help="a folder or a recording to search in; else .reenact, or where you are (repeatable)",
    )
    for flag, field, metavar, help in _FILTERS:
        add(f"--{flag}", action="append", default=[], dest=field, metavar=metavar, help=help)
    add("--error", action="store_true", help="only calls that failed")
    add(
        "--diverged",
        nargs="?",
        const="",
        metavar="CODE",
        help="only divergences, of this kind: of runs, and of reports in .reenact/reports",
    )
    add("--since", metavar="TIME", help="2026-11-01, 2026-11-01T09:30, 2h (ago), yesterday")
    add("--until", metavar="TIME", help="the same; a day is included")
    add(
        "--limit",
        type=positive,
        default=50,
        metavar="N",
        help="maximum number of hits (default: 50)",
    )
    add(
        "--runs",
        action="store_true",
        dest="only_runs",
        help="only the recordings, with the number of hits",
    )
    add("--count", action="store_true", help="only the number of hits")
    add("--rebuild", action="store_true", help="build the index again")
    width_flag(parser)
    json_flag("the hits as JSON")(parser)


def search(args: argparse.Namespace) -> int:
    query = _query(args)
    root = find_root(Path.cwd(), os.environ)
    places = [Path(place).absolute() for place in args.places] or [_usual(root)]
    result = run_search(root, places, query, environ=os.environ, notify=_say, rebuild=args.rebuild)
    for trouble in result.unreadable:
        _say(f"not searched: {trouble.problem}")
    if args.json:
        print(json_line(as_json(result, query)))
    elif args.count:
        print(result.matches.total)
    else:
        printer = Printer(columns() if args.width is None else args.width)
        printer.runs(result.matches) if args.only_runs else printer.hits(
            result.matches, query.terms
        )
        sys.stdout.flush()
        _sum(result, places)
    return 0


def _say(text: str) -> None:
    print(f"reenact: {escape_controls(text)}", file=sys.stderr)


def _usual(root: Path) -> Path:
    ours = root / FOLDER
    return ours if ours.is_dir() else Path.cwd()


def _query(args: argparse.Namespace) -> Query:
    now = datetime.now().astimezone()
    if args.diverged:
        _check_code(args.diverged)
    filters = Filters(
        **{field: tuple(getattr(args, field)) for _, field, _, _ in _FILTERS},
        failed=args.error,
        diverged=args.diverged,
        since=None if args.since is None else read_moment(args.since, now),
        until=None if args.until is None else read_moment(args.until, now, end=True),
    )
    terms = read_terms(args.text, args.unwanted)
    limit = 0 if args.count or args.only_runs else args.limit
    return Query(terms=terms, filters=filters, limit=limit)


def _check_code(code: str) -> None:
    from typing import get_args

    from reenact.engine.divergence.model import Code

    if code not in get_args(Code):
        raise UsageError(
            f"{code!r} is not a kind of divergence",
            hint=f"one of {', '.join(get_args(Code))}; for any, --diverged as the last word",
        )


def _sum(result: Result, places: list[Path]) -> None:
    answer = result.matches
    if not answer.total:
        where = ", ".join(str(place) for place in places)
        _say(f"no hit in {count(result.sources, 'recording')} under {where}")
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


VERSION = 1

_PLAIN = ("[", "]")
_COLOURED = ("\033[1;33m", "\033[0m")
_WHOLE = 2_000
_LEAST = 30
_NAME = 32


class Printer:
    """Printer of recordings and their hits: event, time, summary and excerpt."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout
        self._coloured = self._out.isatty() and "NO_COLOR" not in os.environ

    def runs(self, answer: QueryResult) -> None:
        """Print one line for each recording."""
        table = [
            (f"{run.total:,}", moment(run.created), _status(run), _named(run))
            for run in answer.runs
        ]
        for line in rows(table, right=frozenset({0})):
            self._line(line)

    def hits(self, answer: QueryResult, terms: Sequence[Term]) -> None:
        """Print all hits."""
        for run in answer.runs:
            if run.hits:
                head = f"{_named(run)}  {_status(run)}  {moment(run.created)}"
                print(head, file=self._out)  # not clipped, so that the path can be copied
                self._table(run, terms)
                if run.total > len(run.hits):
                    left = count(run.total - len(run.hits), "more hit")
                    print(f"  and {left}", file=self._out)
                print(file=self._out)

    def _table(self, run: Run, terms: Sequence[Term]) -> None:
        table = [(str(hit.seq or "-"), clock_time(hit.ts), _what(hit)) for hit in run.hits]
        front = rows(table, right=frozenset({0}))
        width = max(map(cell_width, front))
        beside = not self._width or self._width - width - 4 >= _LEAST
        for line, hit in zip(front, run.hits, strict=True):
            start = f"  {line}{' ' * (width - cell_width(line))}  " if beside else " " * 6
            if not beside:
                self._line(f"  {line}")
            room = self._width - cell_width(start) if self._width else _WHOLE
            print((start + self._found(hit, terms, room)).rstrip(), file=self._out)

    def _line(self, text: str) -> None:
        print(clip(text, self._width), file=self._out)

    def _found(self, hit: Hit, terms: Sequence[Term], room: int) -> str:
        if not hit.passages:
            return ""
        first = hit.passages[0]
        label = "" if first.role == CALL else f"{escape_controls(first.role)}: "
        tail = f"  (+{count(first.again, 'call')})" if first.again else ""
        return label + self._marked(first, terms, max(1, room - cell_width(label + tail))) + tail

    def _marked(self, passage: Passage, terms: Sequence[Term], room: int) -> str:
        """Return the width of the marks. Escape sequences need no cells."""
        start, end = _COLOURED if self._coloured else _PLAIN
        found = excerpt(passage.text, terms, room)
        if not self._coloured:
            room -= 2 * len(found.marks)
            found = excerpt(passage.text, terms, max(1, room))
        shown = ""
        for text, marked in found.pieces():
            piece = clip(escape_controls(text), room) if room > 0 else ""
            room -= cell_width(piece)
            shown += f"{start}{piece}{end}" if marked and piece else piece
        return shown


def _named(run: Run) -> str:
    return escape_controls(_short(run.path))


def _status(run: Run) -> str:
    if run.report is not None:
        return "report"
    return f"exit {run.exit_code}" if run.exit_code else escape_controls(run.status)


def _what(hit: Hit) -> str:
    name = "" if hit.name == hit.kind else hit.name
    outcome = ""
    if hit.kind == "network" or (hit.failed and hit.status):
        outcome = str(hit.status or "")
    elif hit.failed and not hit.diverged:
        outcome = "failed"
    kind = "" if hit.kind == "divergence" else hit.kind
    words = clip(escape_controls(" ".join(filter(None, (kind, name)))), _NAME)
    return f"{words} {outcome}".rstrip()


def _short(path: Path) -> str:
    """Return the path relative to the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def command_for(run: Run, hit: Hit) -> str:
    """Return the command that shows a hit."""
    path = shlex.quote(_short(run.path))
    if run.status == "unfinished" and run.report is None:
        lane = f" --lane {hit.lane}"
        return f"reenact show --follow {path}{lane} --from {hit.seq} --to {hit.seq}"
    return f"reenact show {path} {hit.seq}" if hit.seq else f"reenact show {path}"


def page_for(run: Run) -> str:
    """Return the command that writes the recording as a page."""
    marked = "" if run.report is None else f" --report {shlex.quote(_short(run.report))}"
    return f"reenact view {shlex.quote(_short(run.path))}{marked}"


def as_json(result: Result, query: Query) -> dict[str, Any]:
    """Return the result as JSON, version 1."""
    return {
        "version": VERSION,
        "total": result.matches.total,
        "searched": result.sources,
        "recordings": [_run(run, query.terms) for run in result.matches.runs],
        "unreadable": [
            {"path": _short(one.path), "problem": one.problem, "hint": one.hint}
            for one in result.unreadable
        ],
        "index": {
            "path": None if result.index is None else str(result.index),
            "read": result.progress.read,
            "events": result.progress.events,
            "removed": result.progress.removed,
        },
    }


def _run(run: Run, terms: Sequence[Term]) -> dict[str, Any]:
    return {
        "path": _short(run.path),
        "captureId": run.capture,
        "status": run.status,
        "exitCode": run.exit_code,
        "createdAt": run.created,
        "report": None if run.report is None else _short(run.report),
        "total": run.total,
        "hits": [_hit(run, hit, terms) for hit in run.hits],
    }


def _hit(run: Run, hit: Hit, terms: Sequence[Term]) -> dict[str, Any]:
    return {
        "seq": hit.seq or None,
        "closed": hit.closed or None,
        "lane": hit.lane,
        "ts": hit.ts,
        "type": hit.kind,
        "name": hit.name,
        "status": hit.status or None,
        "failed": hit.failed,
        "diverged": hit.diverged or None,
        "show": command_for(run, hit),
        "link": f"#event-{hit.seq}" if hit.seq else None,
        "texts": [_passage(one, terms) for one in hit.passages],
    }


def _passage(passage: Passage, terms: Sequence[Term]) -> dict[str, Any]:
    found = excerpt(passage.text, terms, _WHOLE)
    return {
        "role": passage.role,
        "excerpt": found.text,
        "marks": found.marks,
        "size": len(passage.text),
        "again": passage.again,
    }


COMMANDS = {
    "search": Command(
        description="Finds calls that contain all words in their messages, responses, arguments, results, "
        "bodies, URLs or errors. The newest recordings come first. The search uses an index in "
        ".reenact/cache, which is updated automatically and can be deleted at any time.",
        example="reenact search 'rate limit' --type llm --since 2d",
        arguments=_arguments,
        run=search,
    ),
}
