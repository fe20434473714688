"""The ``run`` command: record or replay a program."""

from __future__ import annotations

import argparse
from pathlib import Path

from reenact.cli._parser import Command, Parser, json_flag, rules
from reenact.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reenact.runs.options import Job, Options

__all__ = ["COMMANDS"]

_PLACES: tuple[tuple[str, Job, bool], ...] = (
    ("capture", "record", False),
    ("replay", "replay", False),
    ("record_net_to", "record", True),
    ("replay_net_from", "replay", True),
    ("live", "live", False),
)
"""Option, job, and whether it is a net tape. At most one of these options is allowed."""


def _arguments(parser: Parser) -> None:
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
    add("--append", action="store_true", help="append to an existing recording")
    add("--strict", action="store_true", help="a divergence ends the replay (default in CI)")
    add("--lenient", action="store_true", help="continue after divergences, and list them")
    rules(parser)
    add("--isolate", action="store_true", help="run in a network namespace with no way out")
    add("--report", metavar="FILE", help="write what happened as JSON")
    add(
        "--explain-boundaries",
        action="store_true",
        help="say what is covered; with a program, run it live and say whose its modules are",
    )
    json_flag("that as JSON")(parser)
    add("-q", "--quiet", action="store_true", help="no summary line")
    add("-v", "--verbose", action="store_true", help="say which client libraries are covered")
    add("command_line", nargs=argparse.REMAINDER, metavar="-- CMD", help="the program")


def run(args: argparse.Namespace) -> int:
    if args.explain_boundaries:
        return _explain(args)
    if args.json:
        raise UsageError(
            "--json goes with --explain-boundaries", hint="--report FILE writes a run's as JSON"
        )
    from reenact.runs.runner import run as run_program  # not needed for --help

    return run_program(_options(args))


def _explain(args: argparse.Namespace) -> int:
    if any(getattr(args, name) not in (None, False) for name, _, _ in _PLACES):
        raise UsageError(
            "--explain-boundaries runs the program live: it neither records nor replays",
            hint="leave the other flag out",
        )
    from reenact.cli.record._boundary_report import explain

    return explain(_command(args), args.boundary, as_json=args.json)


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    command = args.command_line
    return tuple(command[1:] if command[:1] == ["--"] else command)


def _options(args: argparse.Namespace) -> Options:
    from reenact.runs.options import Options

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
        raise UsageError(f"{flags} exclude each other", hint="use one of them")
    if args.strict and args.lenient:
        raise UsageError("--strict and --lenient exclude each other", hint="use one of them")
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
            hint=f"reenact run --replay {place} re-enacts a complete capture",
        )
    return job, place, net


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


COMMANDS = {
    "run": Command(
        description="Runs a Python program, unchanged, with Reenact in it and in its Python children. Without "
        "a flag it is captured to a new folder under .reenact/runs/. In a replay unrecorded "
        "calls are refused, and a divergence ends with exit code 1; otherwise the exit code is the "
        "program's own.",
        example="reenact run --capture runs/today -- python agent.py",
        arguments=_arguments,
        run=run,
    ),
}
