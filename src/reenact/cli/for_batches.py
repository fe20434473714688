"""Arguments of commands about batches."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.parsing import Parser, json_flag, positive, table, times

__all__ = ["ARGUMENTS", "VERDICTS", "filters"]

VERDICTS = ("identical", "equivalent", "fixed", "regressed", "diverged")


def filters(parser: Parser) -> None:
    """Which exchanges."""
    add = parser.add_argument
    add("--app", metavar="APP", help="only this app")
    add("--environment", metavar="NAME", help="only this environment")
    add("--route", metavar="ROUTE", help="only this route")
    add("--status", choices=("completed", "failed"), help="only those that ended so")
    add(
        "--replays",
        choices=("none", "only", "any"),
        help="without replays, only replays, or both (default: none)",
    )
    add("--replayable", action="store_true", help="only those that can be replayed")
    add("--trace", metavar="ID", help="only this trace")
    add("--correlation", metavar="ID", help="only this correlation id")
    times(parser)


def _plan(parser: Parser) -> None:
    add = parser.add_argument
    add("text", nargs="?", metavar="TEXT", help="only with this in an id, route or error")
    filters(parser)
    add("--saved", metavar="NAME", help="the exchanges that a saved search finds")
    add(
        "--exchange",
        action="append",
        default=[],
        metavar="ID",
        help="this exchange (repeatable)",
    )
    add("--target", metavar="NAME", help="replay in this environment; else where each came from")
    add(
        "--boundaries",
        choices=("recorded", "recorded_then_live", "live"),
        default="recorded",
        help="where the answers of outbound calls come from",
    )
    add(
        "--environment-variables",
        choices=("current", "recorded"),
        default="current",
        help="read the current values of the app, or the recorded values",
    )
    add("--strict", action="store_true", help="end each replay at the first divergence")
    add(
        "--revision",
        choices=("current", "same"),
        default="current",
        help="through the route as it is now, or only if it is as it was",
    )
    add("--reason", metavar="TEXT", help="why; required in production and for live calls")
    add("--concurrency", type=positive, metavar="N", help="replays of an agent at a time")
    add("--per-minute", type=positive, metavar="N", help="replays of an agent in a minute")
    json_flag(parser, "the batch as JSON")


def _run(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="BATCH", help="the batch that was planned")
    add("--no-wait", action="store_true", help="only begin with it")
    json_flag(parser, "the batch as JSON")


def _show(parser: Parser) -> None:
    add = parser.add_argument
    add("id", metavar="BATCH", help="the batch")
    add("--items", action="store_true", help="its exchanges and replays, too")
    add(
        "--verdict",
        choices=VERDICTS,
        help="of these only those with this verdict",
    )
    json_flag(parser, "the batch as JSON; with --items these, one line each")


def _cancel(parser: Parser) -> None:
    parser.add_argument("id", metavar="BATCH", help="the batch")
    json_flag(parser, "the batch as JSON")


def _ls(parser: Parser) -> None:
    table(parser, "the batches")


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "batch ls": _ls,
    "batch plan": _plan,
    "batch run": _run,
    "batch show": _show,
    "batch cancel": _cancel,
}
"""By the name of the command."""
