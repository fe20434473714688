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

from reenact.engine.decision.recorded_calls import RecordedCalls
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
from reenact.store.directory.layout import new_capture_path
from reenact.store.directory.sink import DirectorySink
from reenact.store.files import unwritable
from reenact.store.reader import open_recording
from reenact.store.tape.reader import part_path

__all__ = ["RecordRun"]

_WAYS_OUT = "choose another place, or say --overwrite, --append or --mode record_missing"


class RecordRun:
    """Run that records: a :class:`reenact.runs.runner.RunKind`."""

    def __init__(self, options: Options, root: Path) -> None:
        check_report_path(options.report)
        self._options = options
        self._root = root
        self._place = (options.path or new_capture_path(root)).absolute()
        adds = options.mode in ADDING_MODES or options.append
        self._owned = adds and _is_recorded(self._place)
        # Appending to a missing recording creates a new one.
        self._mode: SessionMode = "record" if adds and not self._owned else options.mode or "record"
        self._replaces = options.overwrite or self._mode == "rewrite"
        self._parts: SessionResources | None = None
        self._stage: Path | None = None
        """Copy to update. It replaces the recording only if the program succeeds."""
        self._surroundings = current_environment(os.environ)
        if options.net:
            self._surroundings = self._surroundings.seed_only()
        self.environ: Changes = {HASH_SEED: self._surroundings.hash_seed}
        if self._owned:
            self._surroundings = _read_surroundings(self._place)
            self.environ |= self._surroundings.changes(os.environ)

    def plan(self) -> Plan:
        """Start the recording and return the plan for the processes.

        Raises errors before the program starts.
        """
        settings = self._settings()
        if self._owned:
            if self._mode == "update":
                from reenact.store.rewrite import stage

                self._stage = stage(self._place)
            return self._plan(settings, self._stage or self._place, tape=self._options.net)
        if self._options.net and not self._replaces and self._place.exists():
            raise RecordingExists(f"{self._place} already holds a recording", hint=_WAYS_OUT)
        try:
            self._parts = open_resources(settings)
        except RecordingExists as error:
            raise RecordingExists(error.message, hint=_WAYS_OUT) from None
        said: Data = {"argv": encode_argv(self._options.command)}
        self._note("run_start", said | self._surroundings.data())
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
            capture=None if tape else self._place if captures else _beside(self._place),
            tape=self._place if tape else None,
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
            seed=self._surroundings.seed,
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
        told = read_process_reports(folder)
        if not told:
            print_message(
                "reenact: warning: no Python process took part in this run, so nothing was recorded"
            )
        try:
            kept = self._close(told, code)
        except ReenactError as error:
            print_error(error.message, error.hint)
            return code or error.exit_code
        summary = self._summary(told, code, kept=kept)
        if not self._options.quiet:
            print_message(f"reenact: {summary.line()}")
        write_report(self._options.report, summary)
        return code

    def _close(self, told: list[ProcessReport], code: int) -> bool:
        """Close the recording and return False if it was discarded."""
        if self._owned:
            killed = bool(told) and not any(one.ended for one in told)
            if killed:
                print_message(
                    f"reenact: warning: {self._place} stays as it was: the program was killed"
                )
            if self._stage is not None:
                self._take(self._stage, code, killed=killed)
            return True
        if any(one.approximate for one in told):
            self._sink.flag(Flag.APPROXIMATE)
        if self._mode == "rewrite" and code != 0:
            self._sink.discard()
            print_message(
                f"reenact: warning: {self._place} stays as it was, because the program failed"
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
            take_stage(copy, self._place)
            return
        drop_stage(copy)
        if not killed:
            print_message(
                f"reenact: warning: {self._place} stays as it was, because the program failed"
            )

    def _to_tape(self) -> None:
        from reenact.store.rewrite import to_tape

        assert self._parts is not None
        beside = _beside(self._place)
        to_tape(beside, self._place, self._parts.clock, replace=self._replaces)
        shutil.rmtree(beside)

    def _summary(self, told: list[ProcessReport], code: int, *, kept: bool) -> Summary:
        summary = Summary(mode=self._mode, recording=self._place, exit_code=code)
        summary.add(told)
        if kept and self._place.exists():
            with open_recording(self._place) as source:
                script = RecordedCalls(source)
                entries = script.keep_all()
                script.read_all()
            summary.calls, summary.draws = count_calls(entries)
            summary.lanes = len({entry.lane for entry in entries})
        return summary


def _beside(tape: Path) -> Path:
    """Return the path of the capture from which ``tape`` is created."""
    return tape.with_name(f"{tape.name}.capture")


def _is_recorded(place: Path) -> bool:
    """Return True if there is a recording to add to, including an unfinished one."""
    try:
        if place.is_dir():
            return any(place.iterdir())
        return place.exists() or part_path(place).exists()
    except OSError as error:
        raise unwritable(place, error) from None


def _read_surroundings(place: Path) -> Environment:
    with open_recording(place) as source:
        return recorded_environment(source)
