"""The command ``fork``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from reenact.engine.fork.plan import At
from reenact.errors import UsageError
from reenact.runs.forking import ForkOptions
from reenact.runs.forking import fork as fork_run

__all__ = ["fork"]


def fork(args: argparse.Namespace) -> int:
    """The command ``fork``."""
    options = _options(args)
    if args.sweep:
        from reenact.cli.sweep import sweep

        return sweep(options, args)
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
    """``$.path=VALUE``: JSON, or a plain text where it is none."""
    path, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--set {text[:64]!r} has no value", hint="--set '$.result=42'")
    try:
        return path, json.loads(value)
    except ValueError:
        return path, value
