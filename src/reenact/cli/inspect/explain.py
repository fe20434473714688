"""The ``explain`` command: causes and remedies of a divergence."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

import msgspec

from reenact.cli._event_summary import summary
from reenact.cli._output import clip, count, escape_controls, json_line, value_lines
from reenact.cli._parser import Command, Parser, columns, json_flag, positive, width_flag, wrap
from reenact.cli._recordings import recording_at
from reenact.diff.terminal_text import cell_width
from reenact.engine.divergence.causes import Cause, Remedy, in_policy
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.errors import RecordingError, UsageError
from reenact.policy.paths import find_root
from reenact.runs.options import LAST
from reenact.runs.reports import load_last_report, load_newest_report
from reenact.store.reader import open_recording
from reenact.views.explain.case import Case, NearbyCall
from reenact.views.explain.explanation import (
    VERSION,
    Explanation,
    ReportedDivergence,
    explain,
    read_divergences,
)

__all__ = ["COMMANDS", "Printer"]

_STDIN = "-"
_HOW = (
    "reenact run --replay RUN -- CMD keeps one when it diverges; --report FILE writes it anywhere"
)


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "what",
        metavar="WHAT",
        help="a report or a divergence as JSON (- is stdin), a recording that was replayed, or `last`: "
        "the last replay that diverged",
    )
    add("--recording", metavar="RUN", help="the recording that the report is about")
    add(
        "-n",
        "--number",
        type=positive,
        default=1,
        metavar="N",
        help="which divergence of the report (default: the first)",
    )
    width_flag(parser)
    json_flag("the explanation as JSON")(parser)


def explain_divergence(args: argparse.Namespace) -> int:
    listed = read_divergences(_report(args.what))
    if not listed:
        raise UsageError(f"{args.what}: nothing diverged there", hint=_HOW)
    if args.number > len(listed):
        raise UsageError(
            f"divergence {args.number} does not exist: {args.what} has {count(len(listed), 'divergence')}",
            hint="-n counts from 1",
        )
    told = listed[args.number - 1]
    path = _recording(args, told)
    with nullcontext(None) if path is None else open_recording(path) as source:
        changed = source is not None and _has_changed(
            told, source.manifest().integrity.content_hash
        )
        found = explain(told, path, source)
        if args.json:
            print(json_line(_whole(found, told, path, len(listed), args.number, changed)))
        else:
            Printer(columns() if args.width is None else args.width).print(found)
    _print_notes(args, told, path, len(listed), changed)
    return 0


def _report(what: str) -> Any:
    """Read the report that the argument names: a file, stdin, a recording, or the last one."""
    if what == _STDIN:
        return _read(sys.stdin.buffer.read(), "what stands on stdin")
    if what == LAST:
        return _found(load_newest_report(_root()), "no replay has diverged here lately")
    path = recording_at(what)
    if path.is_file() and not _is_tape(path):
        return _read(path.read_bytes(), what)
    with open_recording(path):  # raises an error for a file that is not a recording
        roots = (_root(), find_root(path.resolve().parent, os.environ))
        kept = next(filter(None, (load_last_report(root, path) for root in roots)), None)
        return _found(kept, f"the last replay of {what} did not diverge")


def _read(content: bytes, what: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is no JSON: {error}", hint=_HOW) from None


def _is_tape(path: Path) -> bool:
    """Return whether the first line is the header of a recording. A report is one JSON object."""
    with path.open("rb") as file:
        line = file.readline()
    try:
        head = json.loads(line)
    except (ValueError, RecursionError):
        return path.suffix == ".jsonl"
    return isinstance(head, dict) and "captureId" in head


def _found(report: Any, otherwise: str) -> Any:
    if report is None:
        raise UsageError(f"{otherwise}, or its report was not stored", hint=_HOW)
    return report


def _root() -> Path:
    return find_root(Path.cwd(), os.environ)


def _recording(args: argparse.Namespace, told: ReportedDivergence) -> Path | None:
    """Return the path of the recording; None if it is unknown or missing."""
    if args.recording is not None:
        return recording_at(args.recording)
    if told.recording is None:
        return None
    path = Path(told.recording)
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    try:
        with open_recording(path):
            return path
    except (RecordingError, OSError):
        return None


def _has_changed(told: ReportedDivergence, now: str) -> bool:
    return told.content_hash is not None and told.content_hash != now


def _print_notes(
    args: argparse.Namespace,
    told: ReportedDivergence,
    path: Path | None,
    number: int,
    changed: bool,
) -> None:
    sys.stdout.flush()
    if path is None:
        why = (
            "names no recording"
            if told.recording is None
            else "names a recording that is not there"
        )
        _note(f"the report {why}: what stands around it is not known (--recording RUN)")
    if changed:
        _note("the recording has changed since: replay it again for a report that fits")
    if number > 1:
        _note(f"{args.number} of {count(number, 'divergence')}; -n N explains another")


def _note(text: str) -> None:
    print(f"reenact: note: {text}", file=sys.stderr)


def _whole(
    found: Explanation,
    told: ReportedDivergence,
    path: Path | None,
    number: int,
    which: int,
    changed: bool,
) -> dict[str, Any]:
    near = [
        {"seq": one.seq, "lane": one.lane, "kind": one.kind, "name": one.name, "became": one.became}
        for one in found.case.near
    ]
    return {
        "version": VERSION,
        "recording": None if path is None else str(path),
        "recordingChanged": changed,
        "number": which,
        "of": number,
        "divergence": told.divergence.to_json(),
        "near": near,
        "causes": msgspec.to_builtins(found.causes),
        "settle": None if found.settle is None else msgspec.to_builtins(found.settle),
    }


_MARKS = {"same": "=", "differs": "-", "not": "."}
_LEGEND = "= the same in both, - recorded, + asked now, . recorded and not reached"
_NOTHING = (
    "None of the usual causes fits: neither the values that differ nor the calls around them tell why. "
    "Look where the program makes this request."
)
_RULES = (
    "A rule goes into .reenact/policies/{name}.policy.json; then `reenact policy pin`. "
    "`reenact policy init` makes the files where there are none."
)
_NARROWEST = 40


class Printer:
    """Printer of explanations, in lines of at most ``width``; 0 means unlimited.

    Text diffs and commands to copy are never clipped.
    """

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = max(_NARROWEST, width) if width else 0
        self._out = out or sys.stdout
        self._said: set[str] = set()

    def print(self, found: Explanation) -> None:
        """Print the divergence, the differences, the calls around it, causes and remedies."""
        bare = msgspec.structs.replace(found.case.divergence, paths=[], more_paths=0, hint="")
        self._line(render_divergence(bare, width=self._width or 1 << 16))
        self._section("difference", self._gaps(found.case))
        self._section(
            f"around it, in lane {escape_controls(found.case.divergence.lane)}",
            self._around(found.case),
        )
        self._section("likely causes" if found.causes else "causes", self._causes(found))
        if found.settle is not None:
            self._section("what would settle it", self._way(found.settle, "  "))
        if any(way.policy is not None for cause in found.causes for way in cause.ways):
            name = escape_controls(found.case.policy) or "ID"
            self._section("rules", self._wrapped(_RULES.format(name=name), "  ", "  "))

    def _line(self, text: str) -> None:
        print(text, file=self._out)

    def _section(self, title: str, lines: Iterator[str]) -> None:
        shown = [*lines]
        if shown:
            self._line("\n".join(["", title, *shown]))

    def _clipped(self, text: str) -> str:
        return clip(text.rstrip(), self._width)

    def _wrapped(self, text: str, first: str, then: str) -> Iterator[str]:
        """Wrap ``text``, which is already escaped."""
        room = (self._width or 1 << 16) - max(cell_width(first), cell_width(then))
        for number, line in enumerate(wrap(text, room)):
            yield f"{then if number else first}{line}"

    def _gaps(self, case: Case) -> Iterator[str]:
        for gap in case.divergence.paths:
            kind = "" if gap.kind == "changed" else f" ({gap.kind})"
            yield self._clipped(f"  {escape_controls(gap.path)}{kind}")
            yield from value_lines(gap, self._out, self._width, indent="    ")
        if case.divergence.more_paths:
            yield f"  and {count(case.divergence.more_paths, 'more place')}"

    def _around(self, case: Case) -> Iterator[str]:
        if not case.near:
            return
        yield from self._wrapped(f"({_LEGEND})", "  ", "   ")
        asked = case.divergence.observed
        told = False
        for near in case.near:
            if near.became == "not" and not told:
                yield from self._asked(case)
                told = True
            yield self._clipped(f"  {_MARKS[near.became]} event {near.seq:<6} {_what(near)}")
            if near.seq == case.divergence.event_seq:
                yield from self._asked(case)
                told = True
        if asked is not None and not told:
            yield from self._asked(case)
        more = case.left - sum(near.became == "not" for near in case.near)
        if more > 0:
            yield f"  . and {more:,} more"

    def _asked(self, case: Case) -> Iterator[str]:
        asked = case.divergence.observed
        if asked is not None:
            data = asked.data if isinstance(asked.data, dict) else {}
            model = f"{escape_controls(asked.operation)}, " if asked.type == "llm_request" else ""
            what = model + (summary(asked.type, data) or escape_controls(asked.operation))
            yield self._clipped(f"  + asked        {what}")

    def _causes(self, found: Explanation) -> Iterator[str]:
        if not found.causes:
            yield from self._wrapped(_NOTHING, "  ", "  ")
            update = found.case.again.update
            way = Remedy(text="If the change is intended, make again what differs.", command=update)
            yield from self._way(way, "  ")
        for number, cause in enumerate(found.causes, 1):
            yield from self._cause(number, cause)

    def _cause(self, number: int, cause: Cause) -> Iterator[str]:
        head = f"  {number}. "
        yield from self._wrapped(f"{cause.sure}: {escape_controls(cause.text)}", head, "     ")
        for fact in cause.evidence:
            yield from self._wrapped(escape_controls(fact), "     ", "       ")
        for way in cause.ways:
            yield from self._way(way, "     ")

    def _way(self, way: Remedy, indent: str) -> Iterator[str]:
        """Format a remedy. A command is never clipped and is printed once."""
        again = way.command in self._said
        text = f"{escape_controls(way.text)} (As above.)" if again else escape_controls(way.text)
        yield from self._wrapped(text, f"{indent}> ", f"{indent}  ")
        if way.policy is not None:
            yield f"{indent}    in the policy: {escape_controls(in_policy(way.policy))}"
        if way.command and not again:
            self._said.add(way.command)
            yield f"{indent}    {escape_controls(way.command)}"


def _what(near: NearbyCall) -> str:
    return summary(near.type, near.data) or escape_controls(near.name)


COMMANDS = {
    "explain": Command(
        description="Shows a divergence in full, the calls around it in the recording and in the replay, "
        "its likely causes with their evidence, and the policy rule or the command that would "
        "settle it. The report of a diverged replay is stored until the next replay of the "
        "same recording.",
        example="reenact explain last",
        arguments=_arguments,
        run=explain_divergence,
    ),
}
