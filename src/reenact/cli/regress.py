"""``reenact regress``: many recordings against the code as it is now."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

from reenact.cli.progress import Progress
from reenact.cli.render import clip, count, json_line, safe
from reenact.errors import UsageError
from reenact.runs.regression.commands import Commands
from reenact.runs.regression.finding import find_recordings, shard_of
from reenact.runs.regression.grouping import Group, as_json, counts, groups
from reenact.runs.regression.junit import junit
from reenact.runs.regression.ledger import Baseline, Journal
from reenact.runs.regression.outcome import BAD, Outcome
from reenact.runs.regression.performing import Perform, perform_all
from reenact.runs.regression.targets import Targets
from reenact.store.files import replace_file

__all__ = ["regress"]

_DIVERGED, _UNREADABLE = 1, 3
_LISTED = 5


def regress(args: argparse.Namespace) -> int:
    """The command ``regress``."""
    _check(args)
    recordings = find_recordings(map(Path, args.path))
    if args.shard is not None:
        recordings = shard_of(recordings, args.shard)
    baseline = None if args.baseline is None or args.update_baseline else args.baseline
    known = Baseline({}) if baseline is None else Baseline.load(Path(baseline))
    outcomes = _performed(recordings, known, args)
    _write(outcomes, args)
    if args.json:
        print(json_line(as_json(outcomes)))
    else:
        _print(outcomes)
    return _exit_code(outcomes)


def _check(args: argparse.Namespace) -> None:
    if args.target is not None and args.command_line:
        raise UsageError("--target and a program exclude each other", hint="say one of them")
    if args.target is not None and (args.allow or args.boundary):
        raise UsageError("--allow and --boundary go with a program", hint="leave them out")
    if args.resume and args.journal is None:
        raise UsageError("--resume needs the journal to resume from", hint="--journal FILE")
    if args.update_baseline and args.baseline is None:
        raise UsageError("--update-baseline needs the file", hint="--baseline FILE")


def _performed(recordings: list[Path], known: Baseline, args: argparse.Namespace) -> list[Outcome]:
    journal = None if args.journal is None else Journal(Path(args.journal))
    done = journal.read() if journal is not None and args.resume else {}
    outcomes = [done[str(one)] for one in recordings if str(one) in done]
    if journal is not None:
        journal.begin(outcomes)
    left = [one for one in recordings if str(one) not in done]
    progress = Progress(len(recordings), len(outcomes), quiet=args.quiet)
    jobs = args.jobs or os.cpu_count() or 1
    with _performer(args) as perform, closing(perform_all(left, perform, jobs)) as coming:
        for outcome in _until_bad(coming, known, args):
            outcomes.append(outcome)
            if journal is not None:
                journal.add(outcome)
            progress.step(counts(outcomes))
    progress.end()
    return outcomes


def _until_bad(
    coming: Iterator[Outcome], known: Baseline, args: argparse.Namespace
) -> Iterator[Outcome]:
    for outcome in coming:
        outcome.known = known.has(outcome)
        yield outcome
        if args.fail_fast and outcome.status in BAD and not outcome.known:
            return


def _performer(args: argparse.Namespace) -> Any:
    if args.target is not None:
        return closing(Targets(args.target, args.policy, args.timeout))
    flags = [] if args.policy is None else ["--policy", args.policy]
    for flag, said in (("--allow", args.allow), ("--boundary", args.boundary)):
        flags += [word for one in said for word in (flag, one)]
    commands: Perform = Commands(args.command_line, flags, args.timeout)
    return nullcontext(commands)


def _write(outcomes: list[Outcome], args: argparse.Namespace) -> None:
    if args.junit is not None:
        replace_file(Path(args.junit), junit(outcomes).encode())
    if args.report is not None:
        content = json.dumps(as_json(outcomes), indent=2) + "\n"
        replace_file(Path(args.report), content.encode())
    if args.update_baseline:
        number = Baseline.write(Path(args.baseline), outcomes)
        print(f"reenact: {count(number, 'known cause')} in {args.baseline}", file=sys.stderr)


def _print(outcomes: list[Outcome]) -> None:
    for group in groups(outcomes):
        print("\n".join(_lines(group)))
        print()
    sys.stdout.flush()
    found = counts(outcomes)
    told = ", ".join(f"{found[name]:,} {name}" for name in ("ok", *BAD, "known") if found[name])
    print(
        f"reenact: {count(len(outcomes), 'recording')}: {told or 'nothing to do'}", file=sys.stderr
    )


def _lines(group: Group) -> Iterator[str]:
    known = ", known" if group.known else ""
    yield f"{count(len(group.outcomes), 'recording')} {group.status}{known}: {safe(group.cause)}"
    for one in group.outcomes[:_LISTED]:
        yield f"  {safe(one.recording)}"
    if len(group.outcomes) > _LISTED:
        yield f"  and {len(group.outcomes) - _LISTED:,} more"
    if not group.known and group.outcomes[0].detail:
        yield ""
        yield from (clip(f"    {safe(line)}", 0) for line in group.outcomes[0].detail.splitlines())


def _exit_code(outcomes: list[Outcome]) -> int:
    bad = {one.status for one in outcomes if one.status in BAD and not one.known}
    if bad == {"unreadable"}:
        return _UNREADABLE
    return _DIVERGED if bad else 0
