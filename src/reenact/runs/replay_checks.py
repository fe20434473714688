"""Checks of the parent process after a replay: unused calls, changed arguments and problems.

After a replay without differences, counting the recorded calls is enough. The machine, the redactor
and the explanation of divergences are imported only otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from reenact.engine.call import SCHEDULE, SLEEP, Entry
from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.divergence.model import Divergence
from reenact.engine.session.settings import Settings
from reenact.format.event import Event
from reenact.runs.command import arguments_of, decode_argv, encode_argv, printable_argument
from reenact.runs.plan import ProcessReport, read_process_reports
from reenact.runs.reports import count_calls, print_error
from reenact.store.reader import open_recording

if TYPE_CHECKING:
    from reenact.engine.decision.machine import Machine
    from reenact.engine.decision.recorded_calls import RecordedCalls
    from reenact.policy.redaction.redactor import Redactor

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
    if not ledger.stubbed():
        entries = _counted_entries(settings)
        if all(ledger.is_used(entry.seq) for entry in entries):
            return _used_calls(entries)
    with _unplayed(settings, ledger) as (machine, script):
        used = [entry for entry in machine.unused() if ledger.is_used(entry.seq)]
        for entry in used:
            script.take(entry)
        for lane in list(script.stopped):
            script.stub(lane)  # the end of a stopped lane varies from run to run
        first, unused = machine.left_over(_SHOWN)
        return msgspec.structs.replace(_used_calls(used), unused=unused, first=first)


def _counted_entries(settings: Settings) -> list[Entry]:
    """Return the recorded calls and draws, in the order of the log."""
    from reenact.engine.decision.recorded_calls import RecordedCalls

    assert settings.path is not None
    with open_recording(settings.path) as source:
        script = RecordedCalls(source)
        entries = script.keep_all()
        script.read_all()
        return [entry for entry in entries if entry.kind not in (SCHEDULE, SLEEP)]


def _used_calls(used: Sequence[Entry]) -> UnusedCalls:
    calls, draws = count_calls(used)
    return UnusedCalls(calls, draws, len({entry.lane for entry in used}))


@contextmanager
def _unplayed(settings: Settings, ledger: UsageLedger) -> Iterator[tuple[Machine, RecordedCalls]]:
    """Open the machine of a replay that has made no call, and the recorded calls it expects."""
    from reenact.engine.session.factory import (
        make_comparer,
        make_machine,
        make_script,
        open_resources,
    )

    parts = open_resources(settings)
    try:
        script = make_script(settings, parts, None)
        assert script is not None
        machine = make_machine(settings, parts, make_comparer(settings, parts), script)
        for lane in ledger.stubbed():
            script.stub(lane)
        yield machine, script
    finally:
        parts.close()


def unused_before(settings: Settings, ledger: UsageLedger, cut: int) -> list[str]:
    """Describe the calls recorded before the fork point ``cut`` that no process made."""
    from reenact.engine.divergence.text_renderer import render_divergence

    whole = msgspec.structs.replace(settings, fork=None, into=None)
    with _unplayed(whole, ledger) as (machine, script):
        left = [one for one in machine.unused() if one.seq < cut and not ledger.is_used(one.seq)]
        return [
            render_divergence(machine.unmade(one)) for one in left if one.lane not in script.stopped
        ]


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
            return "the arguments differ from the recording"
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
    from reenact.diff.terminal_text import escape_controls

    return escape_controls(json.dumps(text, ensure_ascii=False))


def compare_arguments(settings: Settings, command: Sequence[str]) -> ArgumentChange | None:
    """Compare the arguments with the recorded ones; return None if they are equal.

    The path of the Python interpreter is ignored. Commands that start Python through other programs
    are not compared.
    """
    assert settings.path is not None
    with open_recording(settings.path) as source:
        start = next(iter(source), None)
    if start is None or start.type != "run_start":
        return None
    argv = decode_argv(start.data.get("argv"))
    then, now = arguments_of(argv), arguments_of(command)
    if then is None or now is None or then == now:
        return None
    return _compared(settings, start, argv, then, now)


def _compared(
    settings: Settings, start: Event, argv: list[str], then: list[str], now: list[str]
) -> ArgumentChange | None:
    """Compare different arguments by the rules of the policy: a secret was recorded redacted."""
    from reenact.engine.request import request_of
    from reenact.engine.session.factory import make_comparer, open_resources

    parts = open_resources(settings)
    try:
        comparer = make_comparer(settings, parts)
        recorded = request_of(start.type, start.data)
        current = {**recorded, "argv": encode_argv([*argv[: len(argv) - len(then)], *now])}
        if comparer.key(current) == comparer.key(recorded):
            return None
        return ArgumentChange(_shown(then, parts.redactor), _shown(now, parts.redactor))
    finally:
        parts.close()


def _shown(arguments: list[str], redactor: Redactor) -> list[str]:
    from reenact.engine.divergence.excerpts import Truncator

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
