"""Runner of ``reenact run``, which starts the program with Reenact in it and reports the result."""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import msgspec

from reenact._system import entropy, monotonic
from reenact._version import __version__
from reenact.errors import SinkUnwritable, UsageError
from reenact.policy.paths import find_root
from reenact.runs.command import check_command, inject_through_env
from reenact.runs.environment import Changes
from reenact.runs.options import Options
from reenact.runs.plan import MODULES, Plan, with_injection, write_plan
from reenact.runs.reports import print_message
from reenact.store.files import runs_folder, unwritable

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
"""File that a process creates if Reenact could not start in it."""


class RunKind(Protocol):
    """Kind of run: a recording, a replay or a fork."""

    environ: Changes
    """Changes to the environment of the program."""

    def plan(self) -> Plan:
        """Return the plan for the processes. Raises errors before the program starts."""

    def begin(self, folder: Path) -> None:
        """Write the files that the processes share, in addition to the plan, into ``folder``."""

    def doomed(self, folder: Path) -> list[int] | None:
        """Return the processes to end because the run has failed; None as long as it has not."""

    def conclude(self, folder: Path, code: int) -> int:
        """Print the result of a program that ended with ``code``, and return the exit code."""

    def give_up(self) -> None:
        """Delete everything unfinished after an earlier failure."""


def run(options: Options) -> int:
    """Run the program and return the exit code.

    Raises :class:`ReenactError` for a problem found before the program starts.
    """
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
    """Run the program without a recording, because the default path cannot be written.

    The report has the status ``error``.
    """
    from reenact.runs.reports import Summary, print_message, write_report

    print_message(f"reenact: warning: {error.message}; the program runs and is not recorded")
    print_message(f"hint: {error.hint}, and name it: --capture DIR")
    flush()
    code = exit_code(run_program([*before, *options.command], os.environ))
    folder = runs_folder(Path())
    summary = Summary(mode="record", recording=folder, exit_code=code, status="error")
    write_report(options.report, summary)
    return code


def perform(
    work: RunKind, command: Sequence[str], before: Sequence[str] = (), plan: Plan | None = None
) -> int:
    """Run ``command`` under ``work`` and return the exit code.

    ``before`` is a launcher of the command. ``plan`` is the plan of ``work``, if it exists already.
    """
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
    """Return the run kind.

    Only its module is imported, because the program waits for the import.
    """
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
    """Return the launcher that isolates the command, or an empty list."""
    if not options.isolate:
        return []
    from reenact.hermetic import isolation

    return [sys.executable, "-I", isolation.__file__, "--"]


@contextmanager
def _folder(plan: Plan) -> Iterator[Path]:
    """Create the folder of the run, and delete it at the end."""
    folder = _make_folder()
    try:
        write_plan(folder, plan)
        write_import_paths(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> Path:
    """Create a private folder where ``tempfile`` would, without importing its random generator."""
    name = f"reenact-run-{entropy(8).hex()}"
    places = [os.environ.get(variable) for variable in ("TMPDIR", "TEMP", "TMP")]
    for place in (*filter(None, places), "/tmp", "/var/tmp", os.getcwd()):
        folder = Path(place).absolute() / name
        try:
            folder.mkdir(0o700)
        except OSError:
            continue
        return folder
    raise UsageError(
        "no folder for temporary files found", hint="set TMPDIR to a folder that you own"
    )


_PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT")

_FROM_TERMINAL = (signal.SIGINT, getattr(signal, "SIGQUIT", None))


_LOOK = 0.25
"""Seconds between two checks of the process reports."""

_LAST_WORDS = 5.0
"""Seconds that a failed program has to end without a signal."""

_LAST_BREATH = 2.0
"""Seconds between SIGTERM and SIGKILL."""


def run_program(
    argv: Sequence[str],
    environ: Mapping[str, str],
    doomed: Callable[[], Sequence[int] | None] = lambda: None,
    *,
    patience: float = _LAST_WORDS,
    output: TextIO | None = None,
) -> int:
    """Run a program with the standard streams of this process and return its return code.

    A negative return code is a signal, as in ``subprocess``. ``output`` replaces standard output.
    ``doomed`` returns the processes of a failed run, or None as long as the run has not failed. If
    the program has not ended ``patience`` seconds after a failure, it is ended together with these
    processes.
    """
    try:
        process = subprocess.Popen(list(argv), env=dict(environ), stdout=output)
    except OSError as error:
        raise UsageError(
            f"cannot start {argv[0]}: {error.strerror}", hint="check the path and its permissions"
        ) from None
    if not gc.isenabled():  # disabled by :func:`reenact.cli.main.entry`
        gc.freeze()
        gc.enable()
    with _passing_signals_to(process):
        return _wait(process, doomed, patience)


def _wait(
    process: subprocess.Popen[bytes], doomed: Callable[[], Sequence[int] | None], patience: float
) -> int:
    due: float | None = None
    with _end_of(process) as end:
        while True:
            returned = _wait_briefly(process, end)
            if returned is not None:
                return returned
            others = doomed()
            if others is not None:
                due = due or monotonic() + patience
                if monotonic() >= due:
                    print_message(
                        f"reenact: the program did not end within {patience:g} s, and was ended"
                    )
                    return _end(process, others)


@contextmanager
def _end_of(process: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """Open a descriptor that becomes readable when the process ends; None where there is none."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _wait_briefly(process: subprocess.Popen[bytes], end: int | None) -> int | None:
    """Wait for the end of the process, up to :data:`_LOOK` seconds, and return its return code."""
    if end is not None:
        # With a timeout, Popen.wait() would poll and notice the end up to 50 ms late.
        select.select([end], [], [], _LOOK)
        return process.poll()
    try:
        return process.wait(_LOOK)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes], others: Sequence[int]) -> int:
    """End the program and ``others``.

    The program may wait for a thread that a divergence has ended, and would never end.
    """
    pids = dict.fromkeys((process.pid, *others))
    _send(pids, signal.SIGTERM)
    try:
        return process.wait(_LAST_BREATH)
    except subprocess.TimeoutExpired:
        return _killed(process)
    finally:
        _send(pids, signal.SIGKILL)


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
    """Return True if the terminal sends its signals to this process group, and so to the program.

    Standard input need not be the terminal.
    """
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
    """Return the exit code that a shell would report: 128 plus the number of a signal."""
    return returned if returned >= 0 else 128 - returned


def flush() -> None:
    """Flush the standard streams, so that earlier messages come before the program's output."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


_LENT = ("reenact", "msgspec", "orjson", "cryptography", "cffi", "_cffi_backend", "hyperscan")
"""Packages that a process without Reenact in its environment imports from this installation."""


def write_import_paths(folder: Path) -> None:
    """Write the version and the import paths of Reenact into the folder of a run."""
    (folder / "version").write_text(__version__, encoding="utf-8")
    homes = "".join(f"{name}={home}\n" for name, home in _homes().items())
    tag = sys.implementation.cache_tag
    (folder / "homes").write_text(f"{tag}\n{homes}", encoding="utf-8")


def _homes() -> dict[str, str]:
    """Return the import path of each package that processes can borrow."""
    found: dict[str, str] = {}
    for name in _LENT:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            found[name] = str(
                origin.parent.parent if spec.submodule_search_locations else origin.parent
            )
    return found


def run_and_list_modules(command: Sequence[str]) -> tuple[int, list[Module]]:
    """Run ``command`` live and return its exit code and the modules that it imported.

    Its standard output goes to standard error. Every Python process lists its modules when it ends.
    """
    check_command(command, replays=False, isolated=False)
    with _explain_folder() as folder:
        environ = with_injection(dict(os.environ), str(folder))
        flush()
        code = exit_code(run_program(command, environ, output=sys.stderr))
        found: dict[str, str | None] = {}
        for file in sorted((folder / MODULES).iterdir()):
            with contextlib.suppress(msgspec.DecodeError):  # the process was killed while it wrote
                found |= msgspec.json.decode(file.read_bytes(), type=dict[str, str | None])
    # Deferred: the boundaries would load the engine in every `reenact run`.
    from reenact.boundaries.coverage import classified

    return code, classified(found.items())


@contextmanager
def _explain_folder() -> Iterator[Path]:
    folder = _make_folder()
    try:
        (folder / MODULES).mkdir()
        write_import_paths(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
