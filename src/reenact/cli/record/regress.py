"""The ``regress`` command: replay many recordings with the current code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from reenact._system import start_clock
from reenact.cli._output import Progress, count, escape_controls, json_line
from reenact.cli._parser import Command, Parser, filters, json_flag, positive, rules, seconds
from reenact.errors import UsageError
from reenact.policy.index import load_policy
from reenact.policy.paths import find_root
from reenact.runs.regression.baseline import Baseline, BaselineUpdate
from reenact.runs.regression.discovery import find_recordings, shard_of
from reenact.runs.regression.executors import make_engine
from reenact.runs.regression.jobs import Job
from reenact.runs.regression.outcomes import BAD, Group, Tally
from reenact.runs.regression.regression import Journal, Regression
from reenact.runs.regression.report import Header, check_report_paths, report_json, write_reports
from reenact.runs.remote.download import FetchOptions
from reenact.runs.remote.location import Location, RemoteRecording, is_remote

__all__ = ["COMMANDS"]

_DIVERGED, _UNREADABLE = 1, 3


def _from_server(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--from-server",
        nargs="?",
        choices=("captures", "exchanges"),
        const="captures",
        help="use recordings on the server: pushed captures (default), or exchanges",
    )
    add("--text", metavar="TEXT", help="of these only with this in the name, an id, route or error")
    add("--saved", metavar="NAME", help="the exchanges that a saved search finds")
    add("--limit", type=positive, metavar="N", help="maximum number, newest first")
    filters(parser)
    add("--cache", metavar="DIR", help="cache folder of downloads (default: REENACT_CACHE)")
    add(
        "--cache-size",
        type=positive,
        default=8,
        metavar="GIB",
        help="approximate size of the cache in GiB (default: 8)",
    )


def _arguments(parser: Parser) -> None:
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
    add("--address", metavar="ADDRESS", help="address of the Ray cluster (default: RAY_ADDRESS)")
    add("--timeout", type=seconds, metavar="SECONDS", help="end a re-enactment that takes longer")
    add("-x", "--fail-fast", action="store_true", help="stop at the first failure")
    add("--shard", metavar="N/OF", help="only this shard of the recordings, e.g. 2/5")
    add("--journal", metavar="FILE", help="write every outcome to this file immediately")
    add("--resume", action="store_true", help="continue after the last entry of the journal")
    add("--baseline", metavar="FILE", help="ignore failures that this file lists")
    add("--update-baseline", action="store_true", help="write the current failures to that file")
    rules(parser)
    add("--junit", metavar="FILE", help="write the outcomes as JUnit XML")
    add("--report", metavar="FILE", help="write the outcomes as JSON")
    add("--html", metavar="FILE", help="write the outcomes as a page for a browser")
    json_flag("the outcomes as JSON")(parser)
    add("-q", "--quiet", action="store_true", help="no progress")
    add("command_line", nargs="*", metavar="-- CMD", help="the program")


def regress(args: argparse.Namespace) -> int:
    _check(args)
    recordings = _select(args)
    job = _job(args)
    account = _account(args, job, len(recordings))
    known = _read_baseline(args)
    journal = None if args.journal is None else Journal(Path(args.journal), job)
    run = Regression(account, Baseline({}) if args.update_baseline else known, journal)
    left = run.resume(recordings) if args.resume else recordings
    engine = make_engine(args.engine, job, args.jobs, args.address, _credentials(recordings, args))
    progress = Progress(len(recordings), len(run.tally), quiet=args.quiet)
    with _interrupt_on(signal.SIGTERM) as ended:
        try:
            run.perform(
                left,
                engine,
                fail_fast=args.fail_fast,
                step=lambda tally: progress.step(tally.counts),
            )
        except KeyboardInterrupt:
            pass  # finished outcomes are reported below
    progress.end()
    _report(run, known, args)
    if account.ended == "interrupted":
        return 128 + ended.by
    return _exit_code(run.tally, all_known=args.update_baseline)


def _check(args: argparse.Namespace) -> None:
    _check_selection(args)
    if args.target is not None and args.command_line:
        raise UsageError("--target and a program exclude each other", hint="use one of them")
    if args.target is not None and (args.allow or args.boundary):
        raise UsageError("--allow and --boundary go with a program", hint="leave them out")
    if args.resume and args.journal is None:
        raise UsageError("--resume needs the journal to resume from", hint="--journal FILE")
    if args.update_baseline and args.baseline is None:
        raise UsageError("--update-baseline needs the file", hint="--baseline FILE")
    if args.update_baseline and args.fail_fast:
        raise UsageError(
            "--update-baseline requires a complete run, so it excludes --fail-fast",
            hint="leave out -x",
        )
    if args.address is not None and args.engine != "ray":
        raise UsageError("--address requires the engine ray", hint="--engine ray")
    if args.policy is not None:
        load_policy(find_root(Path.cwd(), os.environ), args.policy)
    check_report_paths(
        {
            "--junit": args.junit,
            "--report": args.report,
            "--html": args.html,
            "--journal": args.journal,
            "--baseline": args.baseline if args.update_baseline else None,
        }
    )


def _job(args: argparse.Namespace) -> Job:
    return Job(
        target=args.target,
        command=tuple(args.command_line),
        policy=args.policy,
        allow=tuple(args.allow),
        boundaries=tuple(args.boundary),
        timeout=args.timeout,
    )


def _credentials(recordings: list[Location], args: argparse.Namespace) -> FetchOptions | None:
    if not any(isinstance(one, RemoteRecording) for one in recordings):
        return None
    from reenact.cli.record._remote_recordings import means_for

    return means_for(recordings, args.cache, args.cache_size << 30)


def _account(args: argparse.Namespace, job: Job, total: int) -> Header:
    return Header(
        paths=_selection(args),
        job=job,
        total=total,
        engine=args.engine,
        jobs=args.jobs,
        shard=args.shard,
        baseline=args.baseline,
        started_at=start_clock()(),
    )


def _read_baseline(args: argparse.Namespace) -> Baseline:
    if args.baseline is None or (args.update_baseline and not Path(args.baseline).exists()):
        return Baseline({})
    return Baseline.load(Path(args.baseline))


def _report(run: Regression, known: Baseline, args: argparse.Namespace) -> None:
    """Write the reports and print the result."""
    failed = write_reports(
        run.account, run.tally, junit_to=args.junit, json_to=args.report, html_to=args.html
    )
    if args.update_baseline and run.account.ended != "interrupted":
        written = known.updated(run.tally).write(Path(args.baseline), known)
        print(f"reenact: {args.baseline} written: {_baseline_text(written)}", file=sys.stderr)
    if args.json:
        print(json_line(report_json(run.account, run.tally)))
    else:
        for line in _failure_lines(run.tally):
            print(line)
    sys.stdout.flush()
    if not args.json:
        print(_summary(run.account, run.tally), file=sys.stderr)
    if failed:
        raise failed[0]


def _baseline_text(written: BaselineUpdate) -> str:
    """Return ``3 recordings known to go wrong, 1 new, 2 gone``."""
    told = f"{count(written.known, 'recording')} known to go wrong"
    for number, what in ((written.new, "new"), (written.gone, "gone")):
        told += f", {number:,} {what}" if number else ""
    return told


def _exit_code(tally: Tally, *, all_known: bool) -> int:
    """Return the exit code. After an update of the baseline, only missing recordings are errors."""
    if all_known:
        return _UNREADABLE if any(one.away for one in tally) else 0
    bad = [status for status in BAD if tally.counts[status]]
    if bad == ["unreadable"]:
        return _UNREADABLE
    return _DIVERGED if bad else 0


_OF_EXCHANGES = ("saved", "app", "environment", "route", "status", "replays", "trace")
_FLAGS = (*_OF_EXCHANGES, "correlation", "text", "since", "until", "limit")


def _check_selection(args: argparse.Namespace) -> None:
    """Raise :class:`UsageError` for options that exclude each other."""
    if not args.path and args.from_server is None:
        raise UsageError(
            "no recordings are given", hint="give folders or s3://…, or use --from-server"
        )
    given = [name for name in _FLAGS if getattr(args, name) is not None]
    if args.replayable:
        given.append("replayable")
    if given and args.from_server is None:
        raise UsageError(f"--{given[0]} requires --from-server", hint="use both or none")
    others = [name for name in given if name in (*_OF_EXCHANGES, "correlation", "replayable")]
    if others and args.from_server == "captures":
        raise UsageError(
            f"--{others[0]} finds exchanges, and captures of runs have none",
            hint="--from-server exchanges",
        )
    if args.saved is not None and len(given) > 1 + (args.limit is not None):
        raise UsageError("--saved has its own filters", hint="use one or the other")


def _selection(args: argparse.Namespace) -> list[str]:
    """Return the selected paths as given, for reports."""
    return [*args.path, *([] if args.from_server is None else [f"server:{args.from_server}"])]


def _select(args: argparse.Namespace) -> list[Location]:
    """Return each selected recording once, in the given order. Nothing is downloaded."""
    found: dict[str, Location] = {}
    for one in _recordings_at(args.path):
        found.setdefault(one.name if isinstance(one, RemoteRecording) else str(one), one)
    if args.from_server is not None:
        from reenact.cli.record._remote_recordings import find_on_server

        for remote in find_on_server(args):
            found.setdefault(remote.name, remote)
    every = list(found.values())
    return every if args.shard is None else shard_of(every, args.shard)


def _recordings_at(places: list[str]) -> Iterator[Location]:
    here = [Path(place) for place in places if not is_remote(place)]
    yield from find_recordings(here)
    for place in filter(is_remote, places):
        if place.startswith("s3://"):
            from reenact.runs.remote.s3 import find_bucket_recordings

            yield from find_bucket_recordings(place, os.environ)
        else:
            yield RemoteRecording(keeper=_keeper(place), name=place)


def _keeper(name: str) -> Any:
    return name.partition(":")[0]


_LISTED = 5
_WAYS = {"interrupted": "interrupted", "stopped": "stopped at the first that went wrong"}


def _failure_lines(tally: Tally) -> Iterator[str]:
    """Return the failures grouped by cause, with the details of the first one of each group."""
    for group in tally.groups():
        yield from _group(group)
        yield ""


def _group(group: Group) -> Iterator[str]:
    known = ", known" if group.known else ""
    yield f"{count(len(group.outcomes), 'recording')} {group.status}{known}: {escape_controls(group.cause)}"
    for one in group.outcomes[:_LISTED]:
        yield f"  {escape_controls(one.recording)}"
    if len(group.outcomes) > _LISTED:
        yield f"  and {len(group.outcomes) - _LISTED:,} more"
    if not group.known and group.outcomes[0].detail:
        yield ""
        for line in group.outcomes[0].detail.splitlines():
            yield f"    {escape_controls(line)}".rstrip()


def _summary(account: Header, tally: Tally) -> str:
    """Return one line with the counts, and a second one if some recordings were not replayed."""
    found = tally.counts
    told = ", ".join(f"{found[name]:,} {name}" for name in ("ok", *BAD, "known") if found[name])
    line = f"reenact: {count(len(tally), 'recording')}: {told or 'nothing to do'}"
    left = account.total - len(tally)
    if account.ended == "complete" or not left:
        return line
    return f"{line}\nreenact: {_WAYS[account.ended]}: {count(left, 'recording')} not re-enacted"


class _Interruption:
    """Number of the signal that interrupted the command."""

    by: int = signal.SIGINT


@contextmanager
def _interrupt_on(also: signal.Signals) -> Iterator[_Interruption]:
    """Raise :class:`KeyboardInterrupt` for the signal ``also``, as for Ctrl-C."""
    ended = _Interruption()

    def interrupt(number: int, frame: FrameType | None) -> None:
        ended.by = number
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield ended
        return
    before = signal.signal(also, interrupt)
    try:
        yield ended
    finally:
        signal.signal(also, before)


COMMANDS = {
    "regress": Command(
        description="Re-enacts every recording under the folders, or on the server, several at a time: "
        "each with its recorded program, with the program after --, or in a function that "
        "gets the recorded input. Reports failures grouped by cause. Exit code 1 when "
        "something diverged or failed that is not in the baseline.",
        example="reenact regress .reenact/runs -j 4 --junit regress.xml",
        arguments=_arguments,
        run=regress,
    ),
}
