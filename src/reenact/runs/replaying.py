"""A run that re-enacts a recording. What differs is decided here, where no program can hide it."""

from __future__ import annotations

import os
from pathlib import Path

from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.divergence.text_renderer import render_divergence, render_divergences
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.runs.arguments import other_arguments
from reenact.runs.foreign_tapes import ForeignTape, is_boruna
from reenact.runs.kept import forget, keep, surroundings
from reenact.runs.leftovers import Leftovers, look_for
from reenact.runs.options import LAST, Options, last_run
from reenact.runs.plan import Match, Plan, Told, reports
from reenact.runs.problems import left_running, say_problem
from reenact.runs.surroundings import Changes, recorded_surroundings
from reenact.runs.telling import (
    Summary,
    check_report,
    for_the_command,
    say,
    say_error,
    write_report,
)
from reenact.store.reader import open_recording

__all__ = ["Replaying"]

_DIVERGED, _NOBODY = 1, 2


class Replaying:
    """See :class:`reenact.runs.runner.Work`."""

    def __init__(self, options: Options, root: Path) -> None:
        check_report(options.report)
        self._options = options
        assert options.path is not None
        path = last_run(root) if str(options.path) == LAST else options.path.absolute()
        self._path = self._named = path
        self._root = root
        self._foreign: ForeignTape | None = None
        if options.net and path.is_file() and is_boruna(path):
            self._foreign = ForeignTape(path, root, options.policy)
            self._path = self._foreign.path
        try:
            self._open()
        except BaseException:
            self.give_up()
            raise

    def _open(self) -> None:
        options = self._options
        with open_recording(self._path) as source:
            self._events = len(source)
            found = recorded_surroundings(source)
            self._content_hash = source.manifest().integrity.content_hash
        self._settings = self._settle(self._root)
        self._ledger: UsageLedger | None = None
        if options.net:
            found = found.seed_only()
        self._seed = found.seed
        self.environ: Changes = found.changes(os.environ)

    def _settle(self, root: Path) -> Settings:
        options = self._options
        tape = self._path.is_file()
        return resolve_settings(
            capture=None if tape else self._path,
            tape=self._path if tape else None,
            mode="replay",
            policy=options.policy,
            strict=options.strict,
            match=self._match,
            root=root,
            allow=options.allow,
        )

    @property
    def _match(self) -> Match | None:
        """A tape of Boruna has one order for all threads and tasks."""
        return None if self._foreign is None else "transcript"

    def plan(self) -> Plan:
        """What the processes do."""
        options = self._options
        return Plan(
            mode="replay",
            path=str(self._path),
            tape=self._settings.tape,
            root=str(self._root),
            strict=self._settings.strict,
            policy=options.policy,
            allow=options.allow,
            match=self._match,
            only="network" if options.net else None,
            boundaries=options.boundaries,
            verbose=options.verbose,
            seed=self._seed,
        )

    def begin(self, folder: Path) -> None:
        """What is used is noted where all processes see it."""
        self._ledger = UsageLedger.make(folder, self._events)

    def give_up(self) -> None:
        """A replay leaves nothing behind."""
        if self._foreign is not None:
            self._foreign.close()

    def doomed(self, folder: Path) -> list[int] | None:
        """A strict replay is over with the first difference, whoever waits for whom."""
        return left_running(folder) if self._settings.strict else None

    def conclude(self, folder: Path, code: int) -> int:
        """Say what differed, and return the exit code."""
        try:
            return self._conclude(folder, code)
        finally:
            self.give_up()

    def _conclude(self, folder: Path, code: int) -> int:
        told = reports(folder)
        if not told and not self._options.isolate:
            say_error(
                "no Python process took part in this replay, so whatever the program did was live",
                "name the Python program itself, or add --isolate, which covers any program",
            )
            return _NOBODY
        unreadable = say_problem(told)
        if unreadable is not None:
            return unreadable
        assert self._ledger is not None
        left = look_for(self._settings, self._ledger)
        diverged = self._say_differences(told, left)
        code = _DIVERGED if diverged else code
        summary = self._summary(told, left, code)
        summary.arguments = self._other_arguments(told=diverged or not self._options.quiet)
        kept = self._keep(summary)
        if kept and (diverged or not self._options.quiet):
            say("reenact: why, and what would settle it: reenact explain last")
        if not self._options.quiet:
            say(f"reenact: {summary.line()}")
        write_report(self._options.report, summary)
        return code

    def _keep(self, summary: Summary) -> bool:
        """For ``reenact explain``: what this replay said, as long as it is the last one that did."""
        if self._foreign is not None:
            return False  # the copy that was replayed is about to be deleted
        if summary.divergences:
            return keep(self._root, self._path, summary.to_json())
        forget(self._root, self._path)
        return False

    def _other_arguments(self, *, told: bool) -> dict[str, list[str]] | None:
        """Those of the program, where they are not the recorded ones; and the user is ``told``."""
        found = other_arguments(self._settings, self._options.command)
        if found is None or self._options.net:
            return None
        if told:
            say(f"reenact: note: {found.line()}")
        return found.to_json()

    def _say_differences(self, told: list[Told], left: Leftovers) -> bool:
        """Does the run count as diverged?"""
        texts = list(dict.fromkeys(text for one in told for text in one.texts))
        if texts and self._settings.strict:
            self._say_first(texts)
            return True
        for text in texts:
            say(text)
        unused = self._settings.unused
        if not left.unused or unused == "allow":
            return False
        first, *others = left.first
        say(for_the_command(render_divergence(first)))
        if others:
            say(f"And besides, {render_divergences(others)}")
        more = left.unused - len(left.first)
        if more:
            say(f"… and {more:,} more recorded calls that were not made")
        return unused == "error"

    def _say_first(self, texts: list[str]) -> None:
        """Where one process differs, others that work beside it often do, too: one says enough."""
        first, *others = texts
        say(first)
        if others:
            many = f"{len(others)} other{'s' if len(others) > 1 else ''}"
            say(f"… and {many}, in processes beside that one (--report FILE lists them)")

    def _summary(self, told: list[Told], left: Leftovers, code: int) -> Summary:
        summary = Summary(
            mode="replay",
            recording=self._named,
            exit_code=code,
            calls=left.served,
            draws=left.draws,
            lanes=left.lanes,
            unused=left.unused,
            content_hash=self._content_hash,
            environment=surroundings(),
            only="network" if self._options.net else None,
        )
        summary.add(told)
        if not summary.divergences and self._settings.unused != "allow":
            summary.divergences = [one.to_json() for one in left.first]
        return summary
