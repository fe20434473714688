"""``reenact run``: start the program with Reenact in it, and say how it went."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from reenact.errors import SinkUnwritable, UsageError
from reenact.policy.paths import find_root
from reenact.runs.children import with_injection
from reenact.runs.command import check_command
from reenact.runs.launchers import through_env
from reenact.runs.lending import lend
from reenact.runs.options import Options
from reenact.runs.plan import Plan, write_plan
from reenact.runs.process import exit_code, flush, run_program
from reenact.runs.surroundings import Changes
from reenact.store.directory.layout import runs_folder
from reenact.store.files import unwritable

__all__ = ["Work", "perform", "run"]


_REFUSED = "refused"
"""Is there when a process could not be brought under Reenact."""


class Work(Protocol):
    """One run, from its start to its end: recording or replaying."""

    environ: Changes
    """What the program finds in its environment, and we do not."""

    def plan(self) -> Plan:
        """What the processes of the program are to do. Refuses here what can be refused."""

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


def _planned(work: Work) -> Plan:
    try:
        return work.plan()
    except BaseException:
        work.give_up()
        raise


def _run_unrecorded(options: Options, before: Sequence[str], error: SinkUnwritable) -> int:
    """The user has named no place, and the default cannot be written: the program runs all the same,
    and the report has the status ``error``."""
    from reenact.runs.telling import Summary, say, write_report

    say(f"reenact: warning: {error.message}; the program runs and is not recorded")
    say(f"hint: {error.hint}, and name it: --capture DIR")
    flush()
    code = exit_code(run_program([*before, *options.command], os.environ))
    place = runs_folder(Path())
    summary = Summary(mode="record", recording=place, exit_code=code, status="error")
    write_report(options.report, summary)
    return code


def perform(
    work: Work, command: Sequence[str], before: Sequence[str] = (), plan: Plan | None = None
) -> int:
    """Run ``command`` from the start of ``work`` to its end; ``before`` starts it. ``plan`` is what
    ``work`` has planned already. Returns the exit code."""
    try:
        with _folder(plan or work.plan()) as folder:
            work.begin(folder)
            environ = with_injection(_changed(work.environ), str(folder))
            inject = partial(with_injection, folder=str(folder))
            argv = [*before, *through_env(command, environ["PYTHONPATH"], inject)]
            flush()
            returned = run_program(argv, environ, lambda: work.doomed(folder))
            if (folder / _REFUSED).exists():
                work.give_up()  # it has said why, and has not run
                return exit_code(returned)
            return work.conclude(folder, exit_code(returned))
    except BaseException:
        work.give_up()
        raise


def _changed(changes: Changes) -> dict[str, str]:
    changed = {**os.environ, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def _work(options: Options, root: Path) -> Work:
    """Only what is needed is loaded: the program waits for it."""
    if options.job == "replay":
        from reenact.runs.replaying import Replaying

        return Replaying(options, root)
    from reenact.runs.recording import Recording

    return Recording(options, root)


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
        lend(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
