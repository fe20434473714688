"""The ``import`` and ``export`` commands: recordings of other tools, with a report of losses."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from reenact.cli._output import count, escape_controls, json_line, report, size
from reenact.cli._parser import NEAREST, Command, argument, json_flag, recording, root, takes
from reenact.cli._recordings import recording_at
from reenact.errors import RecordingExists, UsageError
from reenact.interop.exporter import give
from reenact.interop.formats import Format, format_named, guess
from reenact.interop.importer import Moved, jobs, move, policy_of
from reenact.interop.model import KINDS, Loss, Made
from reenact.policy.paths import find_root
from reenact.store.files import replace_file
from reenact.store.reader import open_recording

__all__ = ["COMMANDS"]

FORMATS = ("vcr", "vcr-json", "har", "rrbin", "boruna", "mitmproxy")


def import_(args: argparse.Namespace) -> int:
    source, wanted = _source(args)
    root = Path(args.root) if args.root else find_root(Path.cwd(), os.environ)
    pinned = policy_of(root, args.policy)
    target = Path(args.output) if args.output else None
    done = []
    for job in jobs(source, target, wanted):
        moved = move(job, pinned, redaction=args.redaction, replace=args.overwrite)
        _print_result(moved, as_json=args.json)
        done.append(moved)
    if not args.json:
        _print_total(source, done)
    return max((one.error.exit_code for one in done if one.error is not None), default=0)


def _source(args: argparse.Namespace) -> tuple[Path, Format | None]:
    given = [text for text in (args.source, args.vcr) if text]
    if len(given) != 1:
        raise UsageError(
            "import takes one file or folder",
            hint="reenact import PATH, or reenact import --vcr PATH",
        )
    if args.output and args.in_place:
        raise UsageError("-o and --in-place say two places", hint="leave one of them out")
    name = args.format or ("vcr" if args.vcr else None)
    return Path(given[0]), None if name is None else format_named(name)


def _print_result(moved: Moved, *, as_json: bool) -> None:
    if as_json:
        print(json_line(moved.to_json()))
    elif moved.status == "imported":
        print(
            f"{escape_controls(str(moved.source))} -> {escape_controls(str(moved.target))}: "
            f"{count(moved.calls, 'call')}, {count(moved.hidden, 'value')} hidden"
        )
    elif moved.status == "kept":
        print(
            f"{escape_controls(str(moved.source))}: {escape_controls(str(moved.target))} already exists, kept"
        )
    elif moved.status == "skipped":
        print(f"{escape_controls(str(moved.source))}: no recording, left alone")
    if moved.error is not None:
        report(moved.error)
    _tell_losses(str(moved.source), moved.losses)


def _tell_losses(name: str, losses: Iterable[Loss]) -> None:
    for loss in losses:
        print(
            f"{escape_controls(name)}: lost {loss.count} x {loss.kind}: {loss.what}",
            file=sys.stderr,
        )


def _print_total(source: Path, done: list[Moved]) -> None:
    if not done:
        print(f"{escape_controls(str(source))}: no cassettes found")
    if len(done) < 2:
        return
    states = Counter(one.status for one in done)
    told = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    calls, hidden = sum(one.calls for one in done), sum(one.hidden for one in done)
    print(
        f"{count(len(done), 'file')}: {told}; {count(calls, 'call')}, {count(hidden, 'value')} hidden"
    )
    totals: Counter[str] = Counter()
    for one in done:
        totals.update({loss.kind: loss.count for loss in one.losses})
    for kind, number in sorted(totals.items()):
        print(f"in all: lost {number} x {kind}: {KINDS[kind]}", file=sys.stderr)


def export(args: argparse.Namespace) -> int:
    path, file = recording_at(args.path), args.file
    wanted = format_named(args.format) if args.format else guess(Path(file))
    if wanted is None or wanted.write is None:
        raise UsageError(
            f"cannot tell by the name {file[:100]!r} what to write",
            hint="--format har, vcr, vcr-json, rrbin or boruna",
        )
    to_stdout = file == "-"
    if not to_stdout and Path(file).exists() and not args.overwrite:
        raise RecordingExists(f"{file} already exists", hint="choose another name, or --overwrite")
    with open_recording(path) as source:
        found = give(source)
    made = wanted.write(found.items)
    losses = (*found.losses, *made.losses)
    if to_stdout:
        sys.stdout.flush()
        sys.stdout.buffer.write(made.content)
    else:
        replace_file(Path(file), made.content, private=False)
    _tell_export(args, wanted, made, losses)
    return 0


def _tell_export(
    args: argparse.Namespace, wanted: Format, made: Made, losses: tuple[Loss, ...]
) -> None:
    if args.json and args.file != "-":
        told = {
            "path": args.file,
            "format": wanted.name,
            "calls": made.calls,
            "losses": [loss.to_json() for loss in losses],
        }
        print(json_line(told))
    elif args.file != "-":
        length = size(len(made.content))
        print(f"{escape_controls(args.file)}: {count(made.calls, 'call')}, {length}, {wanted.what}")
    _tell_losses(args.path, losses)


COMMANDS = {
    "import": Command(
        description="Converts recordings of other tools (vcrpy and pytest-recording, HAR, X07, Boruna, "
        "mitmproxy) to tapes, next to the originals or elsewhere. A folder is converted "
        "recursively. Secrets are redacted, originals are not changed, and losses are "
        'reported on stderr. Replay the tapes with match="lookup".',
        example="reenact import --vcr tests/cassettes",
        arguments=takes(
            argument("source [PATH]", "a file, or a folder of cassettes"),
            argument("--vcr PATH", "the same, of vcrpy or pytest-recording"),
            argument("-o, --output DEST", "the tape, or the folder for the tapes"),
            argument("--in-place", "write each tape next to its original (default)"),
            argument(
                "--format",
                "format of the source (default: detected by name and content)",
                choices=FORMATS,
            ),
            argument("--overwrite", "replace existing tapes"),
            argument(
                "--redaction",
                "redaction profile (default: the policy's; in CI strict)",
                choices=("default", "strict", "none"),
            ),
            argument("--policy ID", "policy for secrets and comparison"),
            root(f"{NEAREST}, or where you are"),
            json_flag("what was done as JSON, one line per file"),
        ),
        run=import_,
    ),
    "export": Command(
        description="Writes the HTTP calls of a recording, or the entries of a cassette, in a format of "
        "another tool, and reports on stderr what the format cannot express. Sealed values "
        "are never exported.",
        example="reenact export runs/today today.har",
        arguments=takes(
            recording,
            argument("file FILE", "the file to write, or - for stdout"),
            argument(
                "--format",
                "format to write (default: detected by the name: .har, .yaml, .rrbin)",
                choices=[name for name in FORMATS if name != "mitmproxy"],
            ),
            argument("--overwrite", "replace an existing file"),
            json_flag("what was written and what was lost as JSON"),
        ),
        run=export,
    ),
}
