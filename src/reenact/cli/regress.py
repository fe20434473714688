"""``reenact regress``: many recordings against the code as it is now."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from reenact._system import start_clock
from reenact.cli.choosing import check_choice, chosen, said
from reenact.cli.progress import Progress
from reenact.cli.regress_text import lines, summary
from reenact.cli.render import count, json_line
from reenact.cli.stopping import as_interrupt
from reenact.errors import UsageError
from reenact.policy.index import load_policy
from reenact.policy.paths import find_root
from reenact.runs.afar.place import Place, Remote
from reenact.runs.afar.pulling import Means
from reenact.runs.regression.account import Account, as_json
from reenact.runs.regression.baseline import Baseline, Written
from reenact.runs.regression.engines import make_engine
from reenact.runs.regression.job import Job
from reenact.runs.regression.ledger import Journal
from reenact.runs.regression.outcome import BAD
from reenact.runs.regression.regressing import Regression
from reenact.runs.regression.reports import check_places, write_reports
from reenact.runs.regression.tally import Tally

__all__ = ["regress"]

_DIVERGED, _UNREADABLE = 1, 3


def regress(args: argparse.Namespace) -> int:
    """The command ``regress``."""
    _check(args)
    recordings = chosen(args)
    job = _job(args)
    account = _account(args, job, len(recordings))
    known = _known(args)
    journal = None if args.journal is None else Journal(Path(args.journal), job)
    run = Regression(account, Baseline({}) if args.update_baseline else known, journal)
    left = run.resume(recordings) if args.resume else recordings
    engine = make_engine(args.engine, job, args.jobs, args.address, _means(recordings, args))
    progress = Progress(len(recordings), len(run.tally), quiet=args.quiet)
    with as_interrupt(signal.SIGTERM) as ended:
        try:
            run.perform(
                left,
                engine,
                fail_fast=args.fail_fast,
                step=lambda tally: progress.step(tally.counts),
            )
        except KeyboardInterrupt:
            pass  # what is done is kept, and said
    progress.end()
    _finish(run, known, args)
    if account.ended == "interrupted":
        return 128 + ended.by
    return _exit_code(run.tally, all_known=args.update_baseline)


def _check(args: argparse.Namespace) -> None:
    check_choice(args)
    if args.target is not None and args.command_line:
        raise UsageError("--target and a program exclude each other", hint="say one of them")
    if args.target is not None and (args.allow or args.boundary):
        raise UsageError("--allow and --boundary go with a program", hint="leave them out")
    if args.resume and args.journal is None:
        raise UsageError("--resume needs the journal to resume from", hint="--journal FILE")
    if args.update_baseline and args.baseline is None:
        raise UsageError("--update-baseline needs the file", hint="--baseline FILE")
    if args.update_baseline and args.fail_fast:
        raise UsageError("a baseline of a part is none: it would stop at the first", hint="no -x")
    if args.address is not None and args.engine != "ray":
        raise UsageError("--address is that of a Ray cluster", hint="--engine ray")
    if args.policy is not None:
        load_policy(find_root(Path.cwd(), os.environ), args.policy)
    check_places(
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


def _means(recordings: list[Place], args: argparse.Namespace) -> Means | None:
    if not any(isinstance(one, Remote) for one in recordings):
        return None
    from reenact.cli.afar import means_for  # most have all of them here

    return means_for(recordings, args.cache, args.cache_size << 30)


def _account(args: argparse.Namespace, job: Job, total: int) -> Account:
    return Account(
        paths=said(args),
        job=job,
        total=total,
        engine=args.engine,
        jobs=args.jobs,
        shard=args.shard,
        baseline=args.baseline,
        started_at=start_clock()(),
    )


def _known(args: argparse.Namespace) -> Baseline:
    if args.baseline is None or (args.update_baseline and not Path(args.baseline).exists()):
        return Baseline({})
    return Baseline.load(Path(args.baseline))


def _finish(run: Regression, known: Baseline, args: argparse.Namespace) -> None:
    """Write and print what came out."""
    failed = write_reports(
        run.account, run.tally, junit_to=args.junit, json_to=args.report, html_to=args.html
    )
    if args.update_baseline and run.account.ended != "interrupted":
        written = known.updated(run.tally).write(Path(args.baseline), known)
        print(f"reenact: {args.baseline} written: {_told(written)}", file=sys.stderr)
    if args.json:
        print(json_line(as_json(run.account, run.tally)))
    else:
        for line in lines(run.tally):
            print(line)
    sys.stdout.flush()
    if not args.json:
        print(summary(run.account, run.tally), file=sys.stderr)
    if failed:
        raise failed[0]


def _told(written: Written) -> str:
    """``3 recordings known to go wrong, 1 new, 2 gone``."""
    told = f"{count(written.known, 'recording')} known to go wrong"
    for number, what in ((written.new, "new"), (written.gone, "gone")):
        told += f", {number:,} {what}" if number else ""
    return told


def _exit_code(tally: Tally, *, all_known: bool) -> int:
    """``all_known``: a baseline was written, so that only what could not be got is wrong."""
    if all_known:
        return _UNREADABLE if any(one.away for one in tally) else 0
    bad = [status for status in BAD if tally.counts[status]]
    if bad == ["unreadable"]:
        return _UNREADABLE
    return _DIVERGED if bad else 0
