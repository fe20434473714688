"""Reenact's part inside a process of a program that runs under ``reenact run``."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from reenact._plugins import preset
from reenact.boundaries.processes.injection import inject_with
from reenact.boundaries.registry import PATCHES, covered, uncovered
from reenact.engine.patches.patch import DeferredPatch, Patch, PatchSet
from reenact.engine.session.current import current
from reenact.engine.session.factory import open_resources
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.session import Session
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.errors import DivergenceError, RecordingError, ReenactError, UsageError
from reenact.format.event import ROOT_LANE, Data
from reenact.format.json_path import Path as JsonPath
from reenact.policy.model import SessionMode
from reenact.runs.plan import (
    LANE,
    MODULES,
    RUN,
    Plan,
    ProcessReport,
    claim_lane,
    read_plan,
    with_injection,
    write_process_report,
)
from reenact.runs.reports import with_command_options
from reenact.store.warning import print_warning

__all__ = [
    "child_patches",
    "is_multiprocessing",
    "joining_patch",
    "list_modules_at_exit",
    "print_location",
    "start",
]


def start() -> None:
    """Start Reenact in a Python process below ``reenact run``."""
    folder = Path(os.environ[RUN])
    if (folder / MODULES).is_dir():
        list_modules_at_exit(folder)
        return
    plan = read_plan(folder)
    preset(plan.plugins)
    wish = os.environ.pop(LANE, None)
    if is_multiprocessing(sys.orig_argv):
        # The preparation data of multiprocessing contains its lane.
        PatchSet(lambda: [joining_patch(partial(_begin, folder, plan))]).acquire()
    else:
        _begin(folder, plan, wish)


def _begin(folder: Path, plan: Plan, wish: str | None, pool: str | None = None) -> None:
    for module in plan.boundaries:
        _import_boundary(module)
    lane = claim_lane(folder, wish)
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
    """Session of one process, and its report."""

    def __init__(self, folder: Path, plan: Plan, lane: str, pool: str | None) -> None:
        self._folder = folder
        self._plan = plan
        self._lane = lane
        self._error: BaseException | None = None
        self._problem: ReenactError | None = None
        settings = _settings(folder, plan, lane, pool, self._report_error)
        self._session = Session(settings, _joined(plan, settings))

    def begin(self) -> None:
        if self._plan.verbose:
            _print_coverage()
        self._session.__enter__()
        exiting = Patch(os, "_exit", self._reporting_exit)
        PatchSet(lambda: [*child_patches(str(self._folder)), exiting]).acquire()
        atexit.register(self._end)
        sys.excepthook = self._watching_hook(sys.excepthook)
        self._write_report(ended=False)

    def _report_error(self, error: BaseException) -> None:
        """Report an error immediately, because the program may hide it or end."""
        if isinstance(error, RecordingError):
            self._problem = self._problem or error
        self._write_report(ended=False)

    def _reporting_exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap ``os._exit``, because exit handlers do not run there.

        Also applies to forked children.
        """

        def _exit(*args: Any, **kwargs: Any) -> Any:
            if self._session.is_active and self._plan.owner:
                self._end()  # no other process closes the recording
            elif self._session.is_active:
                self._session.break_off()
                self._write_report(ended=True)
            original(*args, **kwargs)

        return _exit

    def _watching_hook(self, before: Callable[..., Any]) -> Callable[..., Any]:
        def excepthook(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            self._error = error
            if isinstance(error, DivergenceError):
                print_location(trace)  # the parent prints the divergence at the end
            else:
                before(kind, error, trace)

        return excepthook

    def _end(self) -> None:
        error = self._error
        try:
            self._session.__exit__(None if error is None else type(error), error, None)
        except DivergenceError:
            pass  # the report contains it
        self._write_report(ended=True)

    def _write_report(self, *, ended: bool) -> None:
        try:
            # One thread at a time, because the last report is the most complete one.
            with self._session.lock:
                write_process_report(self._folder, self._report(ended=ended))
        except OSError as error:
            print_warning(f"the report of process {os.getpid()} cannot be written: {error}")

    def _report(self, *, ended: bool) -> ProcessReport:
        session = self._session
        report = session.report()
        poison = session.failed_with
        # Later divergences follow from the one that ended a strict replay.
        found = report.divergences if poison is None else [poison]
        texts: list[str] = []
        if found:
            # Deferred: few replays diverge.
            from reenact.engine.divergence.text_renderer import render_divergence

            texts = [with_command_options(render_divergence(one)) for one in found]
        return ProcessReport(
            pid=os.getpid(),
            lane=self._lane,
            served=report.served,
            live=report.live,
            passed=report.passed,
            divergences=[one.to_json() for one in found],
            texts=texts,
            problem=None if self._problem is None else self._problem.to_json(),
            approximate=session.approximate,
            update=report.outcome.to_json() if session.mode == "update" else None,
            ended=ended,
        )


def _joined(plan: Plan, settings: Settings) -> SessionResources | None:
    """Return the resources for the recording that all processes write; None without one."""
    if plan.fork is not None:
        from reenact.engine.recording.session_sinks import join_fork

        return join_fork(settings, open_resources(msgspec.structs.replace(settings, into=None)))
    if plan.mode != "record" or plan.owner:
        return None
    from reenact.engine.recording.session_sinks import join_recording

    return join_recording(settings)


def _alter(data: Data, path: JsonPath, value: Any) -> Data:
    """Alter a result at a fork point. Imported on use, because other runs do not need it."""
    from reenact.boundaries.http.fork import alter_answer

    return alter_answer(data, path, value)


def _print_coverage() -> None:
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
    ledger = None
    if plan.mode == "replay":
        from reenact.engine.decision.usage_ledger import UsageLedger

        ledger = UsageLedger(folder)
    location = {"tape" if plan.tape else "capture": plan.path}
    mode: SessionMode = plan.mode
    guest = not plan.owner
    return resolve_settings(
        capture=location.get("capture"),
        tape=location.get("tape"),
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
        ledger=ledger,
        fork=plan.fork,
        alter=_alter,
        into=None if plan.into is None else Path(plan.into),
        tell=told,
    )


_KEY = "reenact_lane"
_FORKSERVER = "ignore"
"""Argument of ``multiprocessing`` for a process that only creates others."""


def child_patches(folder: str) -> list[DeferredPatch]:
    """Let child processes join the run of ``folder`` and return the patches for multiprocessing."""
    inject_with(lambda environ, lane: {**with_injection(dict(environ), folder), LANE: lane})
    return [
        DeferredPatch(
            "multiprocessing.spawn", lambda module: module, "get_preparation_data", _preparing
        ),
        DeferredPatch(
            "multiprocessing.process", lambda module: module.BaseProcess, "_bootstrap", _running
        ),
    ]


def _running(original: Callable[..., int]) -> Callable[..., int]:
    """Print only the location of a divergence in a process of multiprocessing.

    The process then ends with code 1. ``reenact run`` prints the divergence itself at the end.
    """

    @wraps(original)
    def bootstrap(self: Any, *args: Any, **kwargs: Any) -> int:
        run = self.run

        def run_quietly() -> None:
            try:
                run()
            except DivergenceError as error:
                print_location(error.__traceback__)
                raise SystemExit(1) from None

        self.run = run_quietly
        return original(self, *args, **kwargs)

    return bootstrap


def _preparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Add the lane to the preparation data of a spawned process of multiprocessing."""

    @wraps(original)
    def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
        data = original(*args, **kwargs)
        if args[:1] == (_FORKSERVER,):
            # The fork server is in no session and runs no code of the program.
            for key in ("init_main_from_name", "init_main_from_path"):
                data.pop(key, None)
            return data
        session = current()
        if session is not None:
            with session.lock:
                lane = session.children.spawn()
                session.children.was_forked(lane)
            data[_KEY] = lane.name, lane.pool
        return data

    return get_preparation_data


def is_multiprocessing(argv: Sequence[str]) -> bool:
    """Return True if multiprocessing has started this interpreter, instead of forking a process."""
    return any("from multiprocessing." in word for word in argv)


def joining_patch(begin: Callable[[str | None, str | None], None]) -> DeferredPatch:
    """Return a patch that calls ``begin(lane, pool)`` when the process gets preparation data."""

    def preparing(original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def prepare(data: Any) -> Any:
            begin(*data.pop(_KEY, (None, None)))
            return original(data)

        return prepare

    return DeferredPatch("multiprocessing.spawn", lambda module: module, "prepare", preparing)


def print_location(trace: TracebackType | None) -> None:
    """Print the traceback of a divergence.

    Frames of libraries are omitted, unless they are the only ones.
    """
    import traceback

    whole = traceback.extract_tb(trace)
    frames = [one for one in whole if not _is_library(one.filename)] or whole
    shown = [(_short(one.filename), one.lineno or 0, one.name, one.line) for one in frames]
    sys.stderr.write("Traceback (most recent call last):\n")
    sys.stderr.writelines(traceback.format_list(shown))
    sys.stderr.write("reenact.DivergenceError\n")


def _short(file: str) -> str:
    """Return a path relative to the working directory."""
    return file.removeprefix(os.path.join(os.getcwd(), ""))


def _is_library(file: str) -> bool:
    folders = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(os.__file__))
    return file.startswith((*folders, "<frozen")) or "site-packages" in file


def list_modules_at_exit(folder: Path) -> None:
    """Write the names and files of the imported modules to ``folder`` when this process ends."""
    atexit.register(_write, folder / MODULES / f"{os.getpid()}.json")


def _write(target: Path) -> None:
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "reenact":
            file = getattr(module, "__file__", None)
            found[name] = file if isinstance(file, str) else None
    target.write_bytes(msgspec.json.encode(found))
