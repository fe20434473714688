"""``reenact run``: start the program with Reenact in it, and say how it went."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import msgspec

from reenact._system import monotonic
from reenact._version import __version__
from reenact.errors import SinkUnwritable, UsageError
from reenact.policy.paths import find_root
from reenact.runs.command import check_command, inject_through_env
from reenact.runs.environment import Changes
from reenact.runs.options import Options
from reenact.runs.plan import MODULES, Plan, with_injection, write_plan
from reenact.runs.reports import print_message
from reenact.store.directory.layout import runs_folder
from reenact.store.files import unwritable

if TYPE_CHECKING:
    from reenact.boundaries.coverage import Module

__all__ = [
    "RunKind",
    "exit_code",
    "perform",
    "run",
    "run_and_list_modules",
    "run_program",
    "write_import_paths",
]

_REFUSED = "refused"
"""Is there when a process could not be brought under Reenact."""


class RunKind(Protocol):
    """One run, from its start to its end: recording or replaying."""

    environ: Changes
    """Changes to the environment of the program."""

    def plan(self) -> Plan:
        """Return the plan for the processes. Raises errors before the program starts."""

    def begin(self, folder: Path) -> None:
        """Put into the folder of the run what the processes share."""

    def doomed(self, folder: Path) -> list[int] | None:
        """The processes of a program that has failed, so that it has to come to its end."""

    def conclude(self, folder: Path, code: int) -> int:
        """The program has ended with ``code``. Returns the exit code."""

    def give_up(self) -> None:
        """Something failed before that: leave nothing behind that is only begun."""


def run(options: Options) -> int:
    """Run the program. Returns the exit code; raises :class:`ReenactError` before it starts."""
    if options.job == "live":
        flush()
        return exit_code(run_program(options.command, os.environ))
    replays = options.job == "replay"
    check_command(options.command, replays=replays, isolated=options.isolate)
    _check_isolation(options)
    before = _before(options)
    try:
        work = _work(options, _root())
        plan = _planned(work)
    except SinkUnwritable as error:
        if replays or options.path is not None:
            raise
        return _run_unrecorded(options, before, error)
    return perform(work, options.command, before, plan)


def _root() -> Path:
    try:
        return find_root(Path.cwd(), os.environ)
    except FileNotFoundError as error:  # the working directory was deleted
        raise unwritable(runs_folder(Path()), error) from None


def _planned(work: RunKind) -> Plan:
    try:
        return work.plan()
    except BaseException:
        work.give_up()
        raise


def _run_unrecorded(options: Options, before: Sequence[str], error: SinkUnwritable) -> int:
    """The user has named no place, and the default cannot be written: the program runs all the same,
    and the report has the status ``error``."""
    from reenact.runs.reports import Summary, print_message, write_report

    print_message(f"reenact: warning: {error.message}; the program runs and is not recorded")
    print_message(f"hint: {error.hint}, and name it: --capture DIR")
    flush()
    code = exit_code(run_program([*before, *options.command], os.environ))
    place = runs_folder(Path())
    summary = Summary(mode="record", recording=place, exit_code=code, status="error")
    write_report(options.report, summary)
    return code


def perform(
    work: RunKind, command: Sequence[str], before: Sequence[str] = (), plan: Plan | None = None
) -> int:
    """Run ``command`` from the start of ``work`` to its end; ``before`` starts it. ``plan`` is what
    ``work`` has planned already. Returns the exit code."""
    try:
        with _folder(plan or work.plan()) as folder:
            work.begin(folder)
            environ = with_injection(_changed(work.environ), str(folder))
            inject = partial(with_injection, folder=str(folder))
            argv = [*before, *inject_through_env(command, environ["PYTHONPATH"], inject)]
            flush()
            returned = run_program(argv, environ, lambda: work.doomed(folder))
            if (folder / _REFUSED).exists():
                work.give_up()  # the process has printed the reason
                return exit_code(returned)
            return work.conclude(folder, exit_code(returned))
    except BaseException:
        work.give_up()
        raise


def _changed(changes: Changes) -> dict[str, str]:
    changed = {**os.environ, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def _work(options: Options, root: Path) -> RunKind:
    """Only what is needed is loaded: the program waits for it."""
    if options.job == "replay":
        from reenact.runs.replay import ReplayRun

        return ReplayRun(options, root)
    from reenact.runs.recording import RecordRun

    return RecordRun(options, root)


def _check_isolation(options: Options) -> None:
    if not options.isolate:
        return
    from reenact.hermetic.isolation import HINT, isolation_obstacle

    why = isolation_obstacle()
    if why:
        raise UsageError(why, hint=HINT)


def _before(options: Options) -> list[str]:
    """Isolated, the command is started by a launcher that becomes it."""
    if not options.isolate:
        return []
    from reenact.hermetic import isolation

    return [sys.executable, "-I", isolation.__file__, "--"]


@contextmanager
def _folder(plan: Plan) -> Iterator[Path]:
    """The folder of the run, until it is over."""
    folder = Path(tempfile.mkdtemp(prefix="reenact-run-"))
    try:
        write_plan(folder, plan)
        write_import_paths(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")

_FROM_TERMINAL = (signal.SIGINT, getattr(signal, "SIGQUIT", None))


_LOOK = 0.25
"""Seconds between two checks of the process reports."""

_LAST_WORDS = 5.0
"""Seconds that a program has for its end when that is due."""

_LAST_BREATH = 2.0
"""Seconds from being asked to end to being killed."""


def run_program(
    argv: Sequence[str],
    environ: Mapping[str, str],
    doomed: Callable[[], Sequence[int] | None] = lambda: None,
    *,
    patience: float = _LAST_WORDS,
    output: TextIO | None = None,
) -> int:
    """Run it with our standard streams; ``output`` takes what it prints. Returns what ``subprocess``
    calls its return code.

    ``doomed`` names the processes of a program that should come to its end by now, because what it
    does is of no use any more; None as long as it is. If it has not ended after ``patience``
    seconds, they are ended.
    """
    try:
        process = subprocess.Popen(list(argv), env=dict(environ), stdout=output)
    except OSError as error:
        raise UsageError(
            f"cannot start {argv[0]}: {error.strerror}", hint="check the path and its permissions"
        ) from None
    with _passing_signals_to(process):
        return _wait(process, doomed, patience)


def _wait(
    process: subprocess.Popen[bytes], doomed: Callable[[], Sequence[int] | None], patience: float
) -> int:
    due: float | None = None
    while True:
        try:
            return process.wait(_LOOK)
        except subprocess.TimeoutExpired:
            others = doomed()
            if others is not None:
                due = due or monotonic() + patience
                if monotonic() >= due:
                    print_message(
                        f"reenact: the program did not end within {patience:g} s, and was ended"
                    )
                    return _end(process, others)


def _end(process: subprocess.Popen[bytes], others: Sequence[int]) -> int:
    """A thread that died of a divergence may be waited for; its process would never end."""
    everybody = dict.fromkeys((process.pid, *others))
    _send(everybody, signal.SIGTERM)
    try:
        return process.wait(_LAST_BREATH)
    except subprocess.TimeoutExpired:
        return _killed(process)
    finally:
        _send(everybody, signal.SIGKILL)


def _killed(process: subprocess.Popen[bytes]) -> int:
    process.kill()
    return process.wait()


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


@contextmanager
def _passing_signals_to(process: subprocess.Popen[bytes]) -> Iterator[None]:
    def pass_on(number: int, frame: Any) -> None:
        if number in _FROM_TERMINAL and _is_foreground():
            return  # the terminal has signalled the program already
        try:
            process.send_signal(number)
        except ProcessLookupError:
            pass  # it has just ended

    known = [getattr(signal, name) for name in _PASSED_ON if hasattr(signal, name)]
    before = {number: signal.signal(number, pass_on) for number in known}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Does the terminal send its signals to us, and so to the program? Our standard input need not
    be the terminal for that."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def exit_code(returned: int) -> int:
    """The exit code that a shell would report: a signal counts from 128."""
    return returned if returned >= 0 else 128 - returned


def flush() -> None:
    """Flush the standard streams, so that earlier messages come before the program's output."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


_LENT = ("reenact", "msgspec", "orjson", "cryptography", "cffi", "_cffi_backend", "hyperscan")
"""Packages that a process without Reenact in its environment imports from this installation."""


def write_import_paths(folder: Path) -> None:
    """Write into the folder of a run which Reenact this is, and where it lies."""
    (folder / "version").write_text(__version__, encoding="utf-8")
    homes = "".join(f"{name}={home}\n" for name, home in _homes().items())
    tag = sys.implementation.cache_tag
    (folder / "homes").write_text(f"{tag}\n{homes}", encoding="utf-8")


def _homes() -> dict[str, str]:
    """The folder on whose path each lent module lies."""
    found: dict[str, str] = {}
    for name in _LENT:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            place = Path(spec.origin)
            found[name] = str(
                place.parent.parent if spec.submodule_search_locations else place.parent
            )
    return found


def run_and_list_modules(command: Sequence[str]) -> tuple[int, list[Module]]:
    """Run ``command`` live, its output with our errors. Its exit code, and what its Python processes
    had imported at their end."""
    check_command(command, replays=False, isolated=False)
    with _explain_folder() as folder:
        environ = with_injection(dict(os.environ), str(folder))
        flush()
        code = exit_code(run_program(command, environ, output=sys.stderr))
        found: dict[str, str | None] = {}
        for place in sorted((folder / MODULES).iterdir()):
            with contextlib.suppress(msgspec.DecodeError):  # it was killed
                found |= msgspec.json.decode(place.read_bytes(), type=dict[str, str | None])
    # Deferred: the boundaries would load the engine in every `reenact run`.
    from reenact.boundaries.coverage import classified

    return code, classified(found.items())


@contextmanager
def _explain_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="reenact-run-"))
    try:
        (folder / MODULES).mkdir()
        write_import_paths(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
