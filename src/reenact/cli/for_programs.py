"""Arguments of commands that run programs."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from reenact.cli.for_batches import filters
from reenact.cli.parsing import Parser, json_flag, positive, rules, seconds

__all__ = ["ARGUMENTS"]


def _run(parser: Parser) -> None:
    add = parser.add_argument
    add("--capture", metavar="DIR", help="record everything to this capture directory")
    add("--replay", metavar="DIR", help="re-enact this recording; `last` is the last one made")
    add("--record-net-to", metavar="TAPE", help="record HTTP and websockets alone, in one file")
    add("--replay-net-from", metavar="TAPE", help="re-enact these; everything else runs live")
    add("--live", action="store_true", help="run without recording")
    add(
        "--mode",
        choices=("record", "record_missing", "rewrite", "update"),
        help="add what is missing in the recording, or, if the program succeeds, replace it or "
        "update what differs",
    )
    add("--overwrite", action="store_true", help="replace an existing recording")
    add("--append", action="store_true", help="go on at the end of an existing recording")
    add("--strict", action="store_true", help="a divergence ends the replay (default in CI)")
    add("--lenient", action="store_true", help="go on after divergences, and list them")
    rules(parser)
    add("--isolate", action="store_true", help="run in a network namespace with no way out")
    add("--report", metavar="FILE", help="write what happened as JSON")
    add(
        "--explain-boundaries",
        action="store_true",
        help="say what is covered; with a program, run it live and say whose its modules are",
    )
    json_flag(parser, "that as JSON")
    add("-q", "--quiet", action="store_true", help="no summary line")
    add("-v", "--verbose", action="store_true", help="say which client libraries are covered")
    add("command_line", nargs=argparse.REMAINDER, metavar="-- CMD", help="the program")


def _fork(parser: Parser) -> None:
    add = parser.add_argument
    parser.takes_program = True
    add("path", metavar="RUN", help="the recording to fork: a capture directory, a tape, or `last`")
    add(
        "--at",
        metavar="WHERE",
        help="the call to fork at: the seq of an event, a step such as llm:3, tool:2 or call:7, or "
        "last-llm (default)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change the answer there ($.response…, $.result), or what is asked ($.request…, "
        "$.args…) (repeatable)",
    )
    add("--model", metavar="NAME", help="send model requests to this model from there on")
    add(
        "--live",
        metavar="KINDS",
        help="only these go live after the point, e.g. llm,tools; others are served where recorded",
    )
    add("--into", metavar="DIR", help="the new recording, otherwise a folder under .reenact/runs/")
    add("--sweep", action="store_true", help="fork at every step, and count how often runs fail")
    add("--each", metavar="KIND", help="sweep over llm (default), tool, call or another kind")
    add("-k", type=positive, metavar="N", help="forks per step of a sweep (default: 1)")
    add("-j", dest="jobs", type=positive, metavar="N", help="forks at a time (default: 1)")
    add("--check", metavar="CMD", help="a fork has failed, too, if this command fails")
    rules(parser)
    add("--report", metavar="FILE", help="write what happened as JSON")
    json_flag(parser, "the table of a sweep as JSON")
    add("-q", "--quiet", action="store_true", help="no summary line")
    add("command_line", nargs="*", metavar="-- CMD", help="the program")


def _regress(parser: Parser) -> None:
    add = parser.add_argument
    parser.takes_program = True
    add(
        "path",
        nargs="*",
        metavar="PLACE",
        help="recordings, and folders with recordings in them, here or as s3://bucket/prefix; "
        "capture:ID and exchange:ID are on the server",
    )
    _from_server(parser)
    add("--target", metavar="MODULE:FUNCTION", help="call this function with the recorded input")
    add("-j", dest="jobs", type=positive, metavar="N", help="how many at a time (default: cores)")
    add("--engine", choices=("local", "ray"), default="local", help="where (default: local)")
    add("--address", metavar="ADDRESS", help="of the Ray cluster, otherwise RAY_ADDRESS")
    add("--timeout", type=seconds, metavar="SECONDS", help="end a re-enactment that takes longer")
    add("-x", "--fail-fast", action="store_true", help="stop at the first that goes wrong")
    add("--shard", metavar="N/OF", help="only this part of the recordings, e.g. 2/5")
    add("--journal", metavar="FILE", help="write every outcome there as it comes")
    add("--resume", action="store_true", help="go on where the journal ends")
    add("--baseline", metavar="FILE", help="what goes wrong as this file says does not count")
    add("--update-baseline", action="store_true", help="write what goes wrong now to that file")
    rules(parser)
    add("--junit", metavar="FILE", help="write the outcomes as JUnit XML")
    add("--report", metavar="FILE", help="write the outcomes as JSON")
    add("--html", metavar="FILE", help="write the outcomes as a page for a browser")
    json_flag(parser, "the outcomes as JSON")
    add("-q", "--quiet", action="store_true", help="no progress")
    add("command_line", nargs="*", metavar="-- CMD", help="the program")


def _from_server(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--from-server",
        nargs="?",
        choices=("captures", "exchanges"),
        const="captures",
        help="those on the server: captures that were pushed (unless said), or exchanges",
    )
    add("--text", metavar="TEXT", help="of these only with this in the name, an id, route or error")
    add("--saved", metavar="NAME", help="the exchanges that a saved search finds")
    add("--limit", type=positive, metavar="N", help="at most so many, the newest")
    filters(parser)
    add("--cache", metavar="DIR", help="where they are kept for a while, otherwise REENACT_CACHE")
    add(
        "--cache-size",
        type=positive,
        default=8,
        metavar="GIB",
        help="how much is kept there, about (default: 8)",
    )


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "run": _run,
    "fork": _fork,
    "regress": _regress,
}
"""By the name of the command."""
