"""Arguments of commands that look at recordings."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.parsing import RECORDING, Parser, json_flag, number, positive, recording

__all__ = ["ARGUMENTS"]


def _show(parser: Parser) -> None:
    add = parser.add_argument
    recording(parser)
    add("seq", nargs="?", type=positive, metavar="SEQ", help="show this one event, whole")
    add("--type", action="append", metavar="TYPE", help="only events of this type (repeatable)")
    add("--lane", action="append", metavar="LANE", help="only events of this lane (repeatable)")
    add("--grep", metavar="TEXT", help="only events whose data contain this text")
    add("--from", dest="first", type=positive, metavar="SEQ", help="start at this event")
    add("--to", dest="last", type=positive, metavar="SEQ", help="end with this event")
    add("--limit", type=positive, metavar="N", help="at most so many events")
    add("--follow", action="store_true", help="wait for more until the recording is finished")
    add("--timeline", action="store_true", help="draw lanes as rows and calls as bars over time")
    add(
        "--report",
        metavar="FILE",
        help="mark the divergences of a replay in the timeline, as run --report wrote them",
    )
    add("--width", type=number, metavar="N", help="width of the table, 0 for whole lines")
    json_flag(parser, "whole events as JSON, one per line; of a timeline one object")


def _view(parser: Parser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help=RECORDING)
    add(
        "-o", "--output", metavar="FILE", help="the file to write, otherwise RUN.html where you are"
    )
    add(
        "--report",
        metavar="FILE",
        help="mark the divergences of a replay, as run --report wrote them",
    )
    add("--draws", action="store_true", help="show what was drawn from clock and chance, too")
    add("--from", dest="first", type=positive, metavar="SEQ", help="start with this event")
    add(
        "--limit",
        type=positive,
        metavar="N",
        help="show at most N steps (default: 10,000; a page of 32 MiB has fewer)",
    )
    json_flag(parser, "what was written as JSON")


def _diff(parser: Parser) -> None:
    add = parser.add_argument
    add("one", metavar="A", help=RECORDING)
    add("other", metavar="B", help="the recording to compare with it")
    add(
        "--ignore",
        action="append",
        default=[],
        metavar="PATH",
        help="what stands there does not count, e.g. $.request.body.user or $..id (repeatable)",
    )
    add("--policy", metavar="ID", help="what this policy ignores does not count, either")
    add("--all", action="store_true", help="everything counts: draws, dates, ids, all headers")
    add("--lane", action="append", metavar="LANE", help="only this lane of A (repeatable)")
    add("--stat", action="store_true", help="only the numbers")
    add("--html", metavar="FILE", help="write a page for a browser, with both side by side")
    add(
        "--limit",
        type=positive,
        metavar="N",
        help="show at most N differences on the page (default: 5,000; a page of 32 MiB has fewer)",
    )
    add("--width", type=number, metavar="N", help="width of the lines, 0 for whole ones")
    json_flag(parser, "the comparison as JSON")


def _search(parser: Parser) -> None:
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
    for flag, metavar, help in _WISHES:
        # `run` is the code of a command.
        dest = "run_status" if flag == "run" else flag
        add(f"--{flag}", action="append", default=[], dest=dest, metavar=metavar, help=help)
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
        "--limit", type=positive, default=50, metavar="N", help="at most so many hits (default: 50)"
    )
    add("--runs", action="store_true", help="only the recordings, with the number of hits")
    add("--count", action="store_true", help="only the number of hits")
    add("--rebuild", action="store_true", help="make the index anew")
    add("--width", type=number, metavar="N", help="width of the lines, 0 for whole ones")
    json_flag(parser, "the hits as JSON")


_WISHES = (
    ("type", "TYPE", "only calls of this type: llm, tool, network, process, mcp … (repeatable)"),
    ("model", "MODEL", "only this model; * stands for anything (repeatable)"),
    ("provider", "NAME", "only models of this provider (repeatable)"),
    ("tool", "NAME", "only calls of this tool (repeatable)"),
    ("url", "TEXT", "only HTTP whose URL has this in it (repeatable)"),
    ("host", "HOST", "only HTTP to this host (repeatable)"),
    ("method", "METHOD", "only HTTP with this method (repeatable)"),
    ("status", "CODE", "only HTTP with this status: 404, 5xx; an exit code (repeatable)"),
    ("boundary", "NAME", "only this boundary: net.fetch, process.exec, a function (repeatable)"),
    ("lane", "LANE", "only this lane and those under it (repeatable)"),
    ("run", "STATUS", "only ok, error, recovered or unfinished recordings, or failed programs"),
)


def _explain(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "what",
        metavar="WHAT",
        help="a report or a divergence as JSON (- is stdin), a recording that was replayed, or `last`: "
        "the last replay that diverged",
    )
    add("--recording", metavar="RUN", help="the recording that the report is about")
    add(
        "-n",
        "--number",
        type=positive,
        default=1,
        metavar="N",
        help="which divergence of the report (default: the first)",
    )
    add("--width", type=number, metavar="N", help="width of the lines, 0 for whole ones")
    json_flag(parser, "the explanation as JSON")


def _stats(parser: Parser) -> None:
    recording(parser, many=True)
    json_flag(parser, "the numbers as JSON, one line per recording")


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "show": _show,
    "view": _view,
    "diff": _diff,
    "search": _search,
    "explain": _explain,
    "stats": _stats,
}
"""By the name of the command."""
