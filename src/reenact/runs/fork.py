"""``reenact fork``: re-enact a recording up to a call, continue live, and record everything.

The parent process creates and closes the new recording. It copies the events before the fork point
first. The processes of the program join the recording.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from reenact.boundaries.http.fork import alter_answer
from reenact.engine.decision.recorded_calls import RecordedCalls
from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.fork.plan import At
from reenact.engine.session.factory import open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.errors import RecordingExists, ReenactError, UsageError
from reenact.format.event import ROOT_LANE, SCHEDULE, Data, Draft, Event
from reenact.format.manifest import Flag
from reenact.policy.paths import find_root
from reenact.runs.command import check_command
from reenact.runs.environment import Changes, recorded_environment
from reenact.runs.options import LAST, last_run
from reenact.runs.plan import Plan, ProcessReport, read_process_reports
from reenact.runs.replay_checks import (
    compare_arguments,
    print_problem,
    processes_to_end,
    unused_before,
)
from reenact.runs.reports import (
    Summary,
    check_report_path,
    count_calls,
    print_error,
    print_message,
    write_report,
)
from reenact.runs.runner import perform
from reenact.store.files import new_capture_path, unwritable
from reenact.store.reader import open_recording

__all__ = ["ForkOptions", "fork"]

_NET = ("network", SCHEDULE)
_DIVERGED, _NO_PROCESS = 1, 2


class ForkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``reenact fork``.

    ``path`` is the recording to fork. ``into`` is the new recording; None selects a default path.
    """

    command: tuple[str, ...]
    path: Path
    at: At = At()
    into: Path | None = None
    policy: str | None = None
    allow: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    report: Path | None = None
    quiet: bool = False


def fork(options: ForkOptions) -> int:
    """Fork a run and return the exit code.

    Raises :class:`ReenactError` for a problem found before the program starts.
    """
    if not options.command:
        raise UsageError("no program is given", hint="reenact fork RUN [OPTIONS] -- CMD …")
    check_command(options.command, replays=True, isolated=False)
    root = find_root(Path.cwd(), os.environ)
    return perform(ForkRun(options, root), options.command)


def _is_net(source: Iterable[Event]) -> bool:
    """Return True if a recording contains only network traffic. Its fork then records only that."""
    return all(
        event.type in ("run_start", "run_end")
        or (event.type == "nondeterministic" and event.data.get("source") in _NET)
        for event in source
    )


class ForkRun:
    """Run that forks a recording: a :class:`reenact.runs.runner.RunKind`."""

    def __init__(self, options: ForkOptions, root: Path) -> None:
        check_report_path(options.report)
        self._options = options
        self._root = root
        self._path = last_run(root) if str(options.path) == LAST else options.path.absolute()
        with open_recording(self._path) as source:
            self._events = len(source)
            environment = recorded_environment(source)
            self._net = self._path.is_file() and _is_net(source)
        if self._net:
            environment = environment.seed_only()
        self._seed = environment.seed
        self.environ: Changes = environment.changes(os.environ)
        self._target = self._target_path()
        self._settings = self._settle(options.at)
        self._parts: SessionResources | None = None
        self._ledger: UsageLedger | None = None

    def _target_path(self) -> Path:
        path = self._options.into
        if path is None:
            path = new_capture_path(self._root)
            path = path.with_name(f"{path.name}.jsonl") if self._net else path
        try:
            if path.exists() and (path.is_file() or any(path.iterdir())):
                raise RecordingExists(
                    f"{path} is there already", hint="choose another place: --into DIR"
                )
        except OSError as error:
            raise unwritable(path, error) from None
        return path.absolute()

    @property
    def _folder(self) -> Path:
        """Return the capture directory to write.

        A tape is created from this directory at the end.
        """
        is_tape = self._target.suffix == ".jsonl"
        return self._target.with_name(f"{self._target.name}.capture") if is_tape else self._target

    def _settle(self, at: At) -> Settings:
        options = self._options
        tape = self._path.is_file()
        return resolve_settings(
            capture=None if tape else self._path,
            tape=self._path if tape else None,
            mode="replay",
            policy=options.policy,
            strict=True,
            root=self._root,
            allow=options.allow,
            into=self._folder,
            fork=at,
            alter=alter_answer,
            seal=not self._net,
            only="network" if self._net else None,
        )

    def plan(self) -> Plan:
        """Start the new recording and return the plan for the processes.

        Raises errors before the program starts.
        """
        parts = self._parts = open_resources(self._settings)
        assert parts.fork_plan is not None
        print_message(f"reenact: fork at {parts.fork_plan.point.line()}")
        options = self._options
        return Plan(
            mode="replay",
            path=str(self._path),
            tape=self._settings.tape,
            root=str(self._root),
            strict=True,
            policy=options.policy,
            allow=options.allow,
            only=self._settings.only,
            boundaries=options.boundaries,
            seal=not self._net,
            seed=self._seed,
            fork=msgspec.structs.replace(options.at, at=parts.fork_plan.point.seq),
            into=str(self._folder),
        )

    def begin(self, folder: Path) -> None:
        """Create the ledger of used events that all processes share."""
        self._ledger = UsageLedger.make(folder, self._events)

    def give_up(self) -> None:
        """Discard the new recording, if it was started."""
        if self._parts is not None:
            self._parts.give_up()

    def doomed(self, folder: Path) -> list[int] | None:
        """Return the processes to end after a divergence, or after a failure to read the
        recording.

        Returns None as long as there is neither.
        """
        return processes_to_end(folder)

    # The end

    def conclude(self, folder: Path, code: int) -> int:
        """Close the recording, print a summary, and return the exit code."""
        reports = read_process_reports(folder)
        failed = self._failure(reports, code)
        if failed is not None:
            self.give_up()
            return failed
        left = self._print_unused()
        code = _DIVERGED if left else code
        try:
            self._close(reports, code)
        except ReenactError as error:
            print_error(error.message, error.hint)
            return code or error.exit_code
        summary = self._summary(reports, code)
        if not self._options.quiet:
            self._print_argument_note()
            print_message(f"reenact: {summary.line()}")
        write_report(self._options.report, summary)
        return code

    def _failure(self, reports: Sequence[ProcessReport], code: int) -> int | None:
        """Print why the run was not forked and return the exit code; None if it was forked."""
        if not reports:
            print_error(
                "no Python process took part, so nothing was re-enacted and nothing forked",
                "name the Python program itself",
            )
            return _NO_PROCESS
        unreadable = print_problem(reports)
        if unreadable is not None:
            return unreadable
        text = next((text for one in reports for text in one.texts), None)
        assert self._ledger is not None
        if text is not None:
            print_message(text)
        elif not self._ledger.is_reached():
            self._print_not_reached(code)
        else:
            return None
        self._print_argument_note()
        summary = Summary(mode="fork", recording=self._target, exit_code=_DIVERGED)
        summary.add(reports)
        summary.status = "diverged"
        write_report(self._options.report, summary)
        return _DIVERGED

    def _print_not_reached(self, code: int) -> None:
        assert self._parts is not None
        assert self._parts.fork_plan is not None
        print_error(
            f"the program ended (with {code}) before {self._parts.fork_plan.point.line()}, where the "
            "run was to be forked",
            "check that it is the recorded program: `reenact run --replay` shows the differences",
        )

    def _print_unused(self) -> bool:
        """Print the first recorded call before the fork point that the program did not make.

        The number of other such calls follows. Returns True if there are any.
        """
        assert self._ledger is not None
        assert self._parts is not None
        assert self._parts.fork_plan is not None
        left = unused_before(self._settings, self._ledger, self._parts.fork_plan.point.cut)
        for one in left[:1]:
            print_message(one)
        if left[1:]:
            print_message(f"… and {len(left) - 1:,} more recorded calls that were not made")
        return bool(left)

    def _print_argument_note(self) -> None:
        settings = msgspec.structs.replace(self._settings, fork=None, into=None)
        found = None if self._net else compare_arguments(settings, self._options.command)
        if found is not None:
            print_message(f"reenact: note: {found.line()}")

    def _close(self, reports: Sequence[ProcessReport], code: int) -> None:
        parts = self._parts
        assert parts is not None
        assert parts.sink is not None
        if any(one.approximate for one in reports):
            parts.sink.flag(Flag.APPROXIMATE)
        said: Data = {"status": "ok" if code == 0 else "error", "exitCode": code}
        if not self._net:
            parts.sink.append(
                Draft(type="run_end", data=said, ts=parts.clock(), lane=ROOT_LANE, op="run_end")
            )
        parts.sink.finalize("ok")
        parts.close()
        if self._folder != self._target:
            self._to_tape(parts)

    def _to_tape(self, parts: SessionResources) -> None:
        from reenact.store.rewrite import to_tape

        to_tape(self._folder, self._target, parts.clock, replace=False)
        shutil.rmtree(self._folder)

    def _summary(self, reports: Sequence[ProcessReport], code: int) -> Summary:
        summary = Summary(mode="fork", recording=self._target, exit_code=code)
        summary.add(reports)
        with closing(open_recording(self._target)) as source:
            script = RecordedCalls(source)
            entries = script.keep_all()
            script.read_all()
        summary.calls, summary.draws = count_calls(entries)
        summary.lanes = len({entry.lane for entry in entries})
        return summary
