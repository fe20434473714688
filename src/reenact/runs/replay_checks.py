"""Checks of the parent process after a replay: unused calls, changed arguments and problems."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec

from reenact.diff.terminal_text import escape_controls
from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.divergence.excerpts import Truncator
from reenact.engine.divergence.model import Divergence
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.engine.request import request_of
from reenact.engine.session.factory import make_comparer, make_machine, make_script, open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings
from reenact.format.event import Event
from reenact.policy.redaction.redactor import Redactor
from reenact.runs.command import arguments_of, decode_argv, encode_argv, printable_argument
from reenact.runs.plan import ProcessReport, read_process_reports
from reenact.runs.reports import count_calls, print_error

__all__ = [
    "ArgumentChange",
    "UnusedCalls",
    "compare_arguments",
    "find_unused_calls",
    "print_problem",
    "processes_to_end",
    "unused_before",
]

_SHOWN = 20


class UnusedCalls(msgspec.Struct, frozen=True):
    """Numbers of used and unused recorded calls.

    The processes used ``served`` calls and ``draws`` values in ``lanes`` lanes, and left ``unused``
    calls. ``first`` describes the first of these.
    """

    served: int = 0
    draws: int = 0
    lanes: int = 0
    unused: int = 0
    first: list[Divergence] = msgspec.field(default_factory=list)


def find_unused_calls(settings: Settings, ledger: UsageLedger) -> UnusedCalls:
    """Count the recorded calls that the processes used, and find the unused ones."""
    parts = open_resources(settings)
    try:
        script = make_script(settings, parts, None)
        assert script is not None
        machine = make_machine(settings, parts, make_comparer(settings, parts), script)
        for lane in ledger.stubbed():
            script.stub(lane)
        used = [entry for entry in machine.unused() if ledger.is_used(entry.seq)]
        for entry in used:
            script.take(entry)
        for lane in list(script.stopped):
            script.stub(lane)  # the end of a stopped lane varies from run to run
        first, unused = machine.left_over(_SHOWN)
        calls, draws = count_calls(used)
        return UnusedCalls(calls, draws, len({entry.lane for entry in used}), unused, first)
    finally:
        parts.close()


def unused_before(settings: Settings, ledger: UsageLedger, cut: int) -> list[str]:
    """Describe the calls recorded before the fork point ``cut`` that no process made."""
    whole = msgspec.structs.replace(settings, fork=None, into=None)
    parts = open_resources(whole)
    try:
        script = make_script(whole, parts, None)
        assert script is not None
        machine = make_machine(whole, parts, make_comparer(whole, parts), script)
        for lane in ledger.stubbed():
            script.stub(lane)
        left = [one for one in machine.unused() if one.seq < cut and not ledger.is_used(one.seq)]
        return [
            render_divergence(machine.unmade(one)) for one in left if one.lane not in script.stopped
        ]
    finally:
        parts.close()


_ROOM = 120


class ArgumentChange(msgspec.Struct, frozen=True):
    """Difference between ``recorded`` and ``given`` arguments, both redacted."""

    recorded: list[str]
    given: list[str]

    def line(self) -> str:
        """Return one line, such as ``argument 2 is "b", and was "a" in the recording``."""
        pairs = zip_longest(self.recorded, self.given)
        differing = [(at, *pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1]]
        if not differing:  # only a redacted secret differs
            return "the arguments are not those of the recording"
        at, then, now = differing[0]
        more = f" (and {len(differing) - 1} more)" if len(differing) > 1 else ""
        if now is None:
            return f"argument {at} is missing, and was {_quoted(then)} in the recording{more}"
        was = "not there" if then is None else _quoted(then)
        return f"argument {at} is {_quoted(now)}, and was {was} in the recording{more}"

    def to_json(self) -> dict[str, list[str]]:
        """Return the form that the report contains."""
        return {"recorded": self.recorded, "given": self.given}


def _quoted(text: str) -> str:
    return escape_controls(json.dumps(text, ensure_ascii=False))


def compare_arguments(settings: Settings, command: Sequence[str]) -> ArgumentChange | None:
    """Compare the arguments with the recorded ones; return None if they are equal.

    The path of the Python interpreter is ignored. Commands that start Python through other programs
    are not compared.
    """
    parts = open_resources(settings)
    try:
        start = next(iter(parts.source or ()), None)
        if start is None or start.type != "run_start":
            return None
        return _compared(settings, parts, start, command)
    finally:
        parts.close()


def _compared(
    settings: Settings, parts: SessionResources, start: Event, command: Sequence[str]
) -> ArgumentChange | None:
    argv = decode_argv(start.data.get("argv"))
    then, now = arguments_of(argv), arguments_of(command)
    if then is None or now is None:
        return None
    comparer = make_comparer(settings, parts)
    recorded = request_of(start.type, start.data)
    current = {**recorded, "argv": encode_argv([*argv[: len(argv) - len(then)], *now])}
    if comparer.key(current) == comparer.key(recorded):
        return None
    return ArgumentChange(_shown(then, parts.redactor), _shown(now, parts.redactor))


def _shown(arguments: list[str], redactor: Redactor) -> list[str]:
    bounds = Truncator(redactor)
    data = {"argv": [printable_argument(argument) for argument in arguments]}
    redacted: list[str] = redactor.redact(data).value["argv"]
    return [bounds.line(argument, _ROOM) for argument in redacted]


_UNREADABLE = 3


def processes_to_end(folder: Path) -> list[int] | None:
    """Return the running processes after one has diverged or reported a problem; otherwise None."""
    reports = read_process_reports(folder)
    over = any(one.texts or one.problem is not None for one in reports)
    return [one.pid for one in reports if not one.ended] if over else None


def print_problem(reports: Sequence[ProcessReport]) -> int | None:
    """Print the first problem of the reports and return the exit code; None without a problem."""
    problem = next((one.problem for one in reports if one.problem is not None), None)
    if problem is None:
        return None
    print_error(str(problem.get("message", "")), str(problem.get("hint", "")))
    return _UNREADABLE
