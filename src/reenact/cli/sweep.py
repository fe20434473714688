"""The command ``fork --sweep``: its table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from reenact.cli.render import escape_controls, json_line
from reenact.engine.fork.plan import ForkPoint
from reenact.errors import UsageError
from reenact.runs.forking import ForkOptions
from reenact.runs.sweep import Step
from reenact.runs.sweep import sweep as sweep_run

__all__ = ["sweep"]

_BAR = 20
_WHAT = 36


def sweep(options: ForkOptions, args: argparse.Namespace) -> int:
    """The command ``fork --sweep``. 0 if every fork came to its point, else 1."""
    if args.at is not None:
        raise UsageError("--at and --sweep exclude each other", hint="--each KIND says where")
    if not options.command:
        raise UsageError("there is no program to run", hint="reenact fork --sweep RUN -- CMD …")
    folder, steps = sweep_run(
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
