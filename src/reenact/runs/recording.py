"""Recording of a run.

The parent process creates and closes a new recording, so it is closed however the program ends. The
processes of the program join it. A tape is first written as a capture next to it, because several
processes can write to a capture. Only the first process can add to an existing recording, and it
opens the recording itself.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from reenact.engine.session.factory import open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import ADDING_MODES, Settings, resolve_settings
from reenact.errors import RecordingExists, ReenactError
from reenact.format.event import ROOT_LANE, Data, Draft
from reenact.format.manifest import Flag
from reenact.policy.model import SessionMode
from reenact.runs.command import encode_argv
from reenact.runs.environment import (
    HASH_SEED,
    Changes,
    Environment,
    current_environment,
    recorded_environment,
)
from reenact.runs.options import Options
from reenact.runs.plan import Plan, ProcessReport, read_process_reports
from reenact.runs.reports import (
    Summary,
    check_report_path,
    count_calls,
    print_error,
    print_message,
    write_report,
)
from reenact.store.files import new_capture_path, unwritable
from reenact.store.sinks.directory import DirectorySink

__all__ = ["RecordRun"]

_WAYS_OUT = "choose another place, or say --overwrite, --append or --mode record_missing"


class RecordRun:
    """Run that records: a :class:`reenact.runs.runner.RunKind`."""

    def __init__(self, options: Options, root: Path) -> None:
        check_report_path(options.report)
        self._options = options
        self._root = root
        self._path = (options.path or new_capture_path(root)).absolute()
        adds = options.mode in ADDING_MODES or options.append
        self._owned = adds and _is_recorded(self._path)
        # Appending to a missing recording creates a new one.
        self._mode: SessionMode = "record" if adds and not self._owned else options.mode or "record"
        self._replaces = options.overwrite or self._mode == "rewrite"
        self._parts: SessionResources | None = None
        self._stage: Path | None = None
        """Copy to update. It replaces the recording only if the program succeeds."""
        self._environment = current_environment(os.environ)
        if options.net:
            self._environment = self._environment.seed_only()
        self.environ: Changes = {HASH_SEED: self._environment.hash_seed}
        if self._owned:
            self._environment = _read_environment(self._path)
            self.environ |= self._environment.changes(os.environ)

    def plan(self) -> Plan:
        """Start the recording and return the plan for the processes.

        Raises errors before the program starts.
        """
        settings = self._settings()
        if self._owned:
            if self._mode == "update":
                from reenact.store.rewrite import stage

                self._stage = stage(self._path)
            return self._plan(settings, self._stage or self._path, tape=self._options.net)
        if self._options.net and not self._replaces and self._path.exists():
            raise RecordingExists(f"{self._path} already holds a recording", hint=_WAYS_OUT)
        try:
            self._parts = open_resources(settings)
        except RecordingExists as error:
            raise RecordingExists(error.message, hint=_WAYS_OUT) from None
        data: Data = {"argv": encode_argv(self._options.command)}
        self._note("run_start", data | self._environment.data())
        return self._plan(settings, self._sink.folder, tape=False)

    def begin(self, folder: Path) -> None:
        """Do nothing, because the processes share only the recording."""

    def give_up(self) -> None:
        """Discard a new recording, or the copy of an update, if one was started."""
        if self._stage is not None:
            from reenact.store.rewrite import drop_stage

            drop_stage(self._stage)
        if self._parts is not None:
            self._parts.give_up()

    def _settings(self) -> Settings:
        options = self._options
        tape = options.net and self._owned
        captures = not options.net or self._owned
        return resolve_settings(
            capture=None if tape else self._path if captures else _capture_of(self._path),
            tape=self._path if tape else None,
            mode=self._mode if captures else "record",
            policy=options.policy,
            strict=options.strict,
            root=self._root,
            allow=options.allow,
            overwrite=options.overwrite and captures,
            append=options.append and self._owned,
            seal=not options.net,
        )

    def _plan(self, settings: Settings, path: Path, *, tape: bool) -> Plan:
        options = self._options
        return Plan(
            mode=self._mode if self._mode in ADDING_MODES else "record",
            path=str(path),
            tape=tape,
            root=str(self._root),
            strict=settings.strict,
            policy=options.policy,
            allow=options.allow,
            only="network" if options.net else None,
            owner=self._owned,
            append=options.append and self._owned,
            seal=not options.net,
            boundaries=options.boundaries,
            verbose=options.verbose,
            seed=self._environment.seed,
        )

    @property
    def _sink(self) -> DirectorySink:
        assert self._parts is not None
        assert isinstance(self._parts.sink, DirectorySink)
        return self._parts.sink

    def _note(self, kind: str, data: Data) -> None:
        assert self._parts is not None
        clock = self._parts.clock
        self._sink.append(Draft(type=kind, data=data, ts=clock(), lane=ROOT_LANE, op=kind))

    # The end

    def doomed(self, folder: Path) -> list[int] | None:
        """Return None, because a recorded program is never ended early."""
        return None

    def conclude(self, folder: Path, code: int) -> int:
        """Close the recording, print a summary, and return the exit code."""
        reports = read_process_reports(folder)
        if not reports:
            print_message(
                "reenact: warning: no Python process took part in this run, so nothing was recorded"
            )
        try:
            kept = self._close(reports, code)
        except ReenactError as error:
            print_error(error.message, error.hint)
            return code or error.exit_code
        if self._options.quiet and self._options.report is None:
            return code  # counting the calls would read the complete recording
        summary = self._summary(reports, code, kept=kept)
        if not self._options.quiet:
            print_message(f"reenact: {summary.line()}")
        write_report(self._options.report, summary)
        return code

    def _close(self, reports: list[ProcessReport], code: int) -> bool:
        """Close the recording and return False if it was discarded."""
        if self._owned:
            killed = bool(reports) and not any(one.ended for one in reports)
            if killed:
                print_message(
                    f"reenact: warning: {self._path} is unchanged, because the program was killed"
                )
            if self._stage is not None:
                self._take(self._stage, code, killed=killed)
            return True
        if any(one.approximate for one in reports):
            self._sink.flag(Flag.APPROXIMATE)
        if self._mode == "rewrite" and code != 0:
            self._sink.discard()
            print_message(
                f"reenact: warning: {self._path} is unchanged, because the program failed"
            )
            return False
        status = "ok" if code == 0 else "error"
        self._note("run_end", {"status": status, "exitCode": code})
        # The recording of a failed program is complete, too.
        self._sink.finalize("ok")
        if self._options.net:
            self._to_tape()
        return True

    def _take(self, copy: Path, code: int, *, killed: bool) -> None:
        from reenact.store.rewrite import drop_stage, take_stage

        if code == 0 and not killed:
            take_stage(copy, self._path)
            return
        drop_stage(copy)
        if not killed:
            print_message(
                f"reenact: warning: {self._path} is unchanged, because the program failed"
            )

    def _to_tape(self) -> None:
        from reenact.store.rewrite import to_tape

        assert self._parts is not None
        capture = _capture_of(self._path)
        to_tape(capture, self._path, self._parts.clock, replace=self._replaces)
        shutil.rmtree(capture)

    def _summary(self, reports: list[ProcessReport], code: int, *, kept: bool) -> Summary:
        summary = Summary(mode=self._mode, recording=self._path, exit_code=code)
        summary.add(reports)
        if kept and self._path.exists():
            # Deferred: the program does not wait for these.
            from reenact.engine.decision.recorded_calls import RecordedCalls
            from reenact.store.reader import open_recording

            with open_recording(self._path) as source:
                script = RecordedCalls(source)
                entries = script.keep_all()
                script.read_all()
            summary.calls, summary.draws = count_calls(entries)
            summary.lanes = len({entry.lane for entry in entries})
        return summary


def _capture_of(tape: Path) -> Path:
    """Return the path of the capture from which ``tape`` is created."""
    return tape.with_name(f"{tape.name}.capture")


def _is_recorded(path: Path) -> bool:
    """Return True if there is a recording to add to, including an unfinished one."""
    try:
        if path.is_dir():
            return any(path.iterdir())
        from reenact.store.reader import part_path

        return path.exists() or part_path(path).exists()
    except OSError as error:
        raise unwritable(path, error) from None


def _read_environment(path: Path) -> Environment:
    from reenact.store.reader import open_recording

    with open_recording(path) as source:
        return recorded_environment(source)
