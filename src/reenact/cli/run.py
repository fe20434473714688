"""The command ``run``."""

from __future__ import annotations

import argparse
from pathlib import Path

from reenact.errors import UsageError
from reenact.runs.options import Job, Options
from reenact.runs.runner import run as run_program

__all__ = ["run"]

_PLACES: tuple[tuple[str, Job, bool], ...] = (
    ("capture", "record", False),
    ("replay", "replay", False),
    ("record_net_to", "record", True),
    ("replay_net_from", "replay", True),
    ("live", "live", False),
)
"""The flags that say what to do, of which there is at most one; True for a net tape."""


def run(args: argparse.Namespace) -> int:
    """The command ``run``."""
    if args.explain_boundaries:
        return _explain(args)
    if args.json:
        raise UsageError(
            "--json goes with --explain-boundaries", hint="--report FILE writes a run's as JSON"
        )
    return run_program(_options(args))


def _explain(args: argparse.Namespace) -> int:
    if any(getattr(args, name) not in (None, False) for name, _, _ in _PLACES):
        raise UsageError(
            "--explain-boundaries runs the program live: it neither records nor replays",
            hint="leave the other flag out",
        )
    from reenact.cli.covering import explain

    return explain(_command(args), args.boundary, as_json=args.json)


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    command = args.command_line
    return tuple(command[1:] if command[:1] == ["--"] else command)


def _options(args: argparse.Namespace) -> Options:
    job, path, net = _what(args)
    return Options(
        command=_command(args),
        job=job,
        path=path,
        net=net,
        mode=args.mode,
        policy=args.policy,
        strict=True if args.strict else False if args.lenient else None,
        allow=tuple(args.allow),
        boundaries=tuple(args.boundary),
        isolate=args.isolate,
        report=None if args.report is None else Path(args.report),
        overwrite=args.overwrite,
        append=args.append,
        quiet=args.quiet,
        verbose=args.verbose,
    )


def _what(args: argparse.Namespace) -> tuple[Job, Path | None, bool]:
    said = [one for one in _PLACES if getattr(args, one[0]) not in (None, False)]
    if len(said) > 1:
        flags = " and ".join(_flag(name) for name, _, _ in said)
        raise UsageError(f"{flags} exclude each other", hint="say one of them")
    if args.strict and args.lenient:
        raise UsageError("--strict and --lenient exclude each other", hint="say one of them")
    if not said:
        return "record", None, False
    name, job, net = said[0]
    if job == "live":
        return job, None, net
    # An unset variable of a shell must not turn a replay into a recording.
    if not getattr(args, name):
        raise UsageError(f"{_flag(name)} names no place", hint=f"{_flag(name)} PATH")
    place = Path(getattr(args, name))
    if net and job == "replay" and place.is_dir():
        raise UsageError(
            f"{place} is a folder, and no net tape",
            hint=f"reenact run --replay {place} re-enacts a capture, with all that is in it",
        )
    return job, place, net


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
