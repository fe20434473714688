"""Inside a process of a program that runs under ``reenact run``."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from reenact.boundaries.table import PATCHES, covered, uncovered
from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.engine.patches.patch import Patch, PatchSet
from reenact.engine.session.factory import open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.session import Session
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.errors import DivergenceError, RecordingError, ReenactError, UsageError
from reenact.format.event import ROOT_LANE, Data
from reenact.format.json_path import Path as JsonPath
from reenact.policy.model import SessionMode
from reenact.runs.children import child_patches, is_multiprocessing, joining_patch
from reenact.runs.modules import EXPLAIN, note_modules
from reenact.runs.places import print_place
from reenact.runs.plan import LANE, RUN, Plan, Told, claim, read_plan, tell
from reenact.runs.telling import for_the_command
from reenact.store.warning import print_warning

__all__ = ["start"]


def start() -> None:
    """Begin, in a Python that has just been started below ``reenact run``."""
    folder = Path(os.environ[RUN])
    if (folder / EXPLAIN).is_dir():
        note_modules(folder)
        return
    plan = read_plan(folder)
    wish = os.environ.pop(LANE, None)
    if is_multiprocessing(sys.orig_argv):
        # Its lane comes with its work.
        PatchSet(lambda: [joining_patch(partial(_begin, folder, plan))]).acquire()
    else:
        _begin(folder, plan, wish)


def _begin(folder: Path, plan: Plan, wish: str | None, pool: str | None = None) -> None:
    for module in plan.boundaries:
        _import_boundary(module)
    lane = claim(folder, wish)
    if plan.owner and lane != ROOT_LANE:
        print_warning(
            "only the first process can add to a recording: what this one does is not recorded "
            "(--overwrite and --mode rewrite record all of them)"
        )
        return
    _Program(folder, plan, lane, pool).begin()


def _import_boundary(module: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise UsageError(
            f"the module {module} of --boundary cannot be imported: {error}",
            hint="the folder it lies in has to be on the path: PYTHONPATH=FOLDER reenact run …",
        ) from None


class _Program:
    """One process: its session, and what it reports."""

    def __init__(self, folder: Path, plan: Plan, lane: str, pool: str | None) -> None:
        self._folder = folder
        self._plan = plan
        self._lane = lane
        self._error: BaseException | None = None
        self._problem: ReenactError | None = None
        settings = _settings(folder, plan, lane, pool, self._told)
        self._session = Session(settings, _joined(plan, settings))

    def begin(self) -> None:
        if self._plan.verbose:
            _say_what_is_covered()
        self._session.__enter__()
        if self._session.writes:
            self._session.redacts(b"")  # getting ready for that must not be a part of a call
        exiting = Patch(os, "_exit", self._telling)
        PatchSet(lambda: [*child_patches(str(self._folder)), exiting]).acquire()
        atexit.register(self._end)
        sys.excepthook = self._watching(sys.excepthook)
        self._tell(ended=False)

    def _told(self, error: BaseException) -> None:
        """At once: the program may hide it, or be gone the next moment."""
        if isinstance(error, RecordingError):
            self._problem = self._problem or error
        self._tell(ended=False)

    def _telling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``os._exit``, also of forked children: nothing else of ours runs at such an end."""

        def _exit(*args: Any, **kwargs: Any) -> Any:
            if self._session.is_active and self._plan.owner:
                self._end()  # nobody else closes the recording
            elif self._session.is_active:
                self._session.break_off()
                self._tell(ended=True)
            original(*args, **kwargs)

        return _exit

    def _watching(self, before: Callable[..., Any]) -> Callable[..., Any]:
        def excepthook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            self._error = error
            if isinstance(error, DivergenceError):
                print_place(trace)  # what differs is said at the end, once
            else:
                before(kind, error, trace)

        return excepthook

    def _end(self) -> None:
        error = self._error
        try:
            self._session.__exit__(None if error is None else type(error), error, None)
        except DivergenceError:
            pass  # it is in the report
        self._tell(ended=True)

    def _tell(self, *, ended: bool) -> None:
        try:
            # One thread at a time: the last report is the one that knows most.
            with self._session.lock:
                tell(self._folder, self._report(ended=ended))
        except OSError as error:
            print_warning(f"the report of process {os.getpid()} cannot be written: {error}")

    def _report(self, *, ended: bool) -> Told:
        session = self._session
        report = session.report()
        poison = session.failed_with
        # What comes after the one that ended a strict replay only follows from it.
        found = report.divergences if poison is None else [poison]
        return Told(
            pid=os.getpid(),
            lane=self._lane,
            served=report.served,
            live=report.live,
            passed=report.passed,
            divergences=[one.to_json() for one in found],
            texts=[for_the_command(render_divergence(one)) for one in found],
            problem=None if self._problem is None else self._problem.to_json(),
            approximate=session.approximate,
            update=report.outcome.to_json() if session.mode == "update" else None,
            ended=ended,
        )


def _joined(plan: Plan, settings: Settings) -> SessionResources | None:
    """The recording that all processes write to, if there is one."""
    if plan.fork is not None:
        from reenact.engine.recording.sinks import join_fork

        return join_fork(settings, open_resources(msgspec.structs.replace(settings, into=None)))
    if plan.mode != "record" or plan.owner:
        return None
    from reenact.engine.recording.sinks import join_recording

    return join_recording(settings)


def _alter(data: Data, path: JsonPath, value: Any) -> Data:
    """Where a run is forked; no other run has to load it."""
    from reenact.boundaries.altering import alter_answer

    return alter_answer(data, path, value)


def _say_what_is_covered() -> None:
    rest = ", ".join(stack.name for stack in uncovered()) or "none of the known ones"
    for line in (f"covered: {', '.join(covered())}", f"installed and not covered: {rest}"):
        sys.stderr.write(f"reenact: {line}\n")


def _settings(
    folder: Path,
    plan: Plan,
    lane: str,
    pool: str | None,
    told: Callable[[BaseException], None],
) -> Settings:
    place = {"tape" if plan.tape else "capture": plan.path}
    mode: SessionMode = plan.mode
    guest = not plan.owner
    return resolve_settings(
        capture=place.get("capture"),
        tape=place.get("tape"),
        mode=mode,
        policy=plan.policy,
        strict=plan.strict,
        unused="allow" if guest else None,
        root=plan.root,
        allow=plan.allow,
        match=plan.match,
        append=plan.append and plan.owner,
        seal=plan.seal,
        whole_process=True,
        boundaries=PATCHES,
        only=plan.only,
        run_seed="" if plan.seed is None else str(plan.seed),
        lane=lane if guest else None,
        pool=pool,
        guest=guest,
        ledger=UsageLedger(folder) if mode == "replay" else None,
        fork=plan.fork,
        alter=_alter,
        into=None if plan.into is None else Path(plan.into),
        tell=told,
    )
