"""Replay of a run.

The parent process evaluates the reports of all processes, so that no program can hide a divergence.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.runs.environment import Changes, recorded_environment
from reenact.runs.options import LAST, Options, last_run
from reenact.runs.plan import Match, Plan, ProcessReport, read_process_reports
from reenact.runs.replay_checks import (
    UnusedCalls,
    compare_arguments,
    find_unused_calls,
    print_problem,
    processes_to_end,
)
from reenact.runs.reports import (
    Summary,
    check_report_path,
    delete_last_report,
    platform_facts,
    print_error,
    print_message,
    store_last_report,
    with_command_options,
    write_report,
)
from reenact.store.reader import open_recording

__all__ = [
    "ForeignTape",
    "ReplayRun",
    "is_boruna",
]

_DIVERGED, _NO_PROCESS = 1, 2


class ReplayRun:
    """Run that replays: a :class:`reenact.runs.runner.RunKind`."""

    def __init__(self, options: Options, root: Path) -> None:
        check_report_path(options.report)
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
            found = recorded_environment(source)
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
        """Return ``transcript`` for a tape of Boruna, which has one order for all threads and
        tasks."""
        return None if self._foreign is None else "transcript"

    def plan(self) -> Plan:
        """Return the plan for the processes."""
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
        """Create the ledger of used events that all processes share."""
        self._ledger = UsageLedger.make(folder, self._events)

    def give_up(self) -> None:
        """Delete the converted copy of a foreign tape."""
        if self._foreign is not None:
            self._foreign.close()

    def doomed(self, folder: Path) -> list[int] | None:
        """Return the processes to end after the first divergence or problem of a strict replay."""
        return processes_to_end(folder) if self._settings.strict else None

    def conclude(self, folder: Path, code: int) -> int:
        """Print the differences and a summary, and return the exit code."""
        try:
            return self._conclude(folder, code)
        finally:
            self.give_up()

    def _conclude(self, folder: Path, code: int) -> int:
        reports = read_process_reports(folder)
        if not reports and not self._options.isolate:
            print_error(
                "no Python process took part in this replay, so all calls of the program were live",
                "give the Python program itself, or add --isolate, which covers any program",
            )
            return _NO_PROCESS
        unreadable = print_problem(reports)
        if unreadable is not None:
            return unreadable
        assert self._ledger is not None
        left = find_unused_calls(self._settings, self._ledger)
        diverged = self._print_differences(reports, left)
        code = _DIVERGED if diverged else code
        summary = self._summary(reports, left, code)
        summary.arguments = self._other_arguments(print_note=diverged or not self._options.quiet)
        kept = self._keep(summary)
        if kept and (diverged or not self._options.quiet):
            print_message("reenact: why, and what would settle it: reenact explain last")
        if not self._options.quiet:
            print_message(f"reenact: {summary.line()}")
        write_report(self._options.report, summary)
        return code

    def _keep(self, summary: Summary) -> bool:
        """Store the report of a diverged replay for ``reenact explain``, or delete the previous
        one.

        Returns True if a report was stored.
        """
        if self._foreign is not None:
            return False  # the copy that was replayed is about to be deleted
        if summary.divergences:
            return store_last_report(self._root, self._path, summary.to_json())
        delete_last_report(self._root, self._path)
        return False

    def _other_arguments(self, *, print_note: bool) -> dict[str, list[str]] | None:
        """Compare the arguments with the recorded ones and print a note if ``print_note``."""
        found = compare_arguments(self._settings, self._options.command)
        if found is None or self._options.net:
            return None
        if print_note:
            print_message(f"reenact: note: {found.line()}")
        return found.to_json()

    def _print_differences(self, reports: list[ProcessReport], left: UnusedCalls) -> bool:
        """Print the differences and return True if the run counts as diverged."""
        texts = list(dict.fromkeys(text for one in reports for text in one.texts))
        if texts and self._settings.strict:
            self._print_first(texts)
            return True
        for text in texts:
            print_message(text)
        unused = self._settings.unused
        if not left.unused or unused == "allow":
            return False
        # Deferred: few replays diverge.
        from reenact.engine.divergence.text_renderer import render_divergence, render_divergences

        first, *others = left.first
        print_message(with_command_options(render_divergence(first)))
        if others:
            print_message(f"And besides, {render_divergences(others)}")
        more = left.unused - len(left.first)
        if more:
            print_message(f"… and {more:,} more recorded calls that were not made")
        return unused == "error"

    def _print_first(self, texts: list[str]) -> None:
        """Print the first divergence and the number of others.

        Parallel processes often diverge together, so one is enough.
        """
        first, *others = texts
        print_message(first)
        if others:
            many = f"{len(others)} other{'s' if len(others) > 1 else ''}"
            print_message(f"… and {many}, in other processes (--report FILE lists them)")

    def _summary(self, reports: list[ProcessReport], left: UnusedCalls, code: int) -> Summary:
        summary = Summary(
            mode="replay",
            recording=self._named,
            exit_code=code,
            calls=left.served,
            draws=left.draws,
            lanes=left.lanes,
            unused=left.unused,
            content_hash=self._content_hash,
            environment=platform_facts(),
            only="network" if self._options.net else None,
        )
        summary.add(reports)
        if not summary.divergences and self._settings.unused != "allow":
            summary.divergences = [one.to_json() for one in left.first]
        return summary


_START = 4096
"""Number of bytes to check. Boruna writes the format version at the beginning."""


def is_boruna(path: Path) -> bool:
    """Return True if ``path`` begins like a net tape of Boruna, in any version."""
    try:
        with path.open("rb") as file:
            start = file.read(_START)
    except OSError:
        return False  # opening it as a recording reports the reason
    return b'"format_version"' in start and b'"captureId"' not in start


class ForeignTape:
    """Copy of a Boruna net tape as a tape of Reenact, in a private folder until :meth:`close`.

    Nothing is redacted, because the program needs the recorded values and the copy is deleted.
    """

    def __init__(self, source: Path, root: Path, policy: str | None) -> None:
        """Convert ``source``. Raises :class:`RecordingDamaged` and :class:`RecordingTooNew`."""
        # Loaded here because every replay imports this module.
        import tempfile

        from reenact.interop.formats import format_named, read_content
        from reenact.interop.importer import Origin, policy_of, take
        from reenact.interop.model import check_size

        check_size(source.stat().st_size)
        content = source.read_bytes()
        one = format_named("boruna")
        found = read_content(one, content, str(source))
        self._folder = Path(tempfile.mkdtemp(prefix="reenact-tape-"))
        self.path = self._folder / f"{source.stem}.jsonl"
        try:
            origin = Origin(one.name, content, int(source.stat().st_mtime * 1000))
            take(found, self.path, origin, pinned=policy_of(root, policy), redaction="none")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Delete the copy."""
        shutil.rmtree(self._folder, ignore_errors=True)
