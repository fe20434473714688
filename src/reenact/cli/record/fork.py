"""The ``fork`` command."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reenact.cli._output import escape_controls, json_line
from reenact.cli._parser import Command, Parser, json_flag, positive, rules
from reenact.engine.fork.plan import At, ForkPoint
from reenact.errors import UsageError
from reenact.runs.fork import ForkOptions
from reenact.runs.fork import fork as fork_run

if TYPE_CHECKING:
    from reenact.runs.sweep import Step

__all__ = ["COMMANDS"]


def _arguments(parser: Parser) -> None:
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
        help="change the response there ($.response…, $.result) or the request ($.request…, "
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
    json_flag("the table of a sweep as JSON")(parser)
    add("-q", "--quiet", action="store_true", help="no summary line")
    add("command_line", nargs="*", metavar="-- CMD", help="the program")


def fork(args: argparse.Namespace) -> int:
    options = _options(args)
    if args.sweep:
        return _sweep(options, args)
    for flag in ("each", "k", "jobs", "check"):
        if getattr(args, flag) is not None:
            raise UsageError(f"{_FLAGS[flag]} goes with --sweep", hint="add --sweep")
    if args.json:
        raise UsageError("--json goes with --sweep", hint="--report FILE writes a fork's as JSON")
    return fork_run(options)


_FLAGS = {"each": "--each", "k": "-k", "jobs": "-j", "check": "--check"}


def _options(args: argparse.Namespace) -> ForkOptions:
    return ForkOptions(
        command=tuple(args.command_line),
        path=Path(args.path),
        at=At(
            at=args.at or At().at,
            set=dict(map(_assignment, args.set)),
            model=args.model,
            live=None if args.live is None else _kinds(args.live),
        ),
        into=None if args.into is None else Path(args.into),
        policy=args.policy,
        allow=tuple(args.allow),
        boundaries=tuple(args.boundary),
        report=None if args.report is None else Path(args.report),
        quiet=args.quiet,
    )


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(one.strip() for one in text.split(",") if one.strip())
    if not kinds:
        raise UsageError("--live names nothing", hint="e.g. --live llm,tools")
    return kinds


def _assignment(text: str) -> tuple[str, Any]:
    """Parse ``$.path=VALUE``. A value that is not JSON is a string."""
    path, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text[:64]!r} has no value", hint="--set '$.result=42'")
    try:
        return path, json.loads(value)
    except ValueError:
        return path, value


_BAR = 20
_WHAT = 36


def _sweep(options: ForkOptions, args: argparse.Namespace) -> int:
    """Run ``fork --sweep``. The exit code is 1 if a fork diverged before its point."""
    if args.at is not None:
        raise UsageError(
            "--at and --sweep exclude each other", hint="choose the steps with --each KIND"
        )
    if not options.command:
        raise UsageError("no program is given", hint="reenact fork --sweep RUN -- CMD …")
    from reenact.runs.sweep import sweep

    folder, steps = sweep(
        options,
        each=args.each or "llm",
        times=args.k or 1,
        jobs=args.jobs or 1,
        check=args.check,
        tell=lambda text: None if args.quiet else print(f"reenact: {text}", file=sys.stderr),
    )
    if args.json:
        print(json_line(_json(folder, steps)))
    else:
        print("\n".join(_table(steps)), flush=True)
        print(f"reenact: the forks are in {escape_controls(str(folder))}", file=sys.stderr)
    return 1 if any(step.count("diverged") for step in steps) else 0


def _table(steps: list[Step]) -> list[str]:
    lines = [f"{'event':>7}  {'what':<{_WHAT}}  forks  failed  diverged"]
    for step in steps:
        what = escape_controls(_what(step.point))[:_WHAT]
        numbers = f"{len(step.outcomes):>5}  {step.count('failed'):>6}  {step.count('diverged'):>8}"
        bar = "#" * round(_BAR * (step.share or 0.0))
        lines.append(f"{step.point.seq:>7}  {what:<{_WHAT}}  {numbers}  {bar}".rstrip())
    return lines


def _what(point: ForkPoint) -> str:
    said = point.operation
    return said if said.startswith(point.kind) else f"{point.kind} {said}".rstrip()


def _json(folder: Path, steps: list[Step]) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "steps": [
            {
                "seq": step.point.seq,
                "kind": step.point.kind,
                "operation": step.point.operation,
                "forks": len(step.outcomes),
                "failed": step.count("failed"),
                "diverged": step.count("diverged"),
                "share": step.share,
                "folders": step.folders,
            }
            for step in steps
        ],
    }


COMMANDS = {
    "fork": Command(
        description="Re-enacts a recorded run up to a call, exactly and without making any call. At that "
        "point it can change something, and continues live. The result is a complete new "
        "recording that refers to its parent. A difference before the point is a divergence: "
        "exit code 1; otherwise the exit code is the program's own.",
        example="reenact fork last --at last-llm --model gpt-5-mini -- python agent.py",
        arguments=_arguments,
        run=fork,
    ),
}
