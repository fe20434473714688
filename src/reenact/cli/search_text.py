"""What was found, as text and as JSON."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from reenact.cli.render import cell_width, clip, count, escape_controls, rows
from reenact.search.answering import Answer, Hit, Passage, Question, Run
from reenact.search.asking import Term
from reenact.search.excerpts import excerpt
from reenact.search.facts import CALL
from reenact.search.moments import clock_time, moment
from reenact.search.searching import Result

__all__ = ["VERSION", "Printer", "as_json", "command_for", "page_for"]

VERSION = 1

_PLAIN = ("[", "]")
_COLOURED = ("\033[1;33m", "\033[0m")
_WHOLE = 2_000
_LEAST = 30
_NAME = 32


class Printer:
    """Prints recordings and, under each, its hits: event, time, what, and where the words are."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout
        self._coloured = self._out.isatty() and "NO_COLOR" not in os.environ

    def runs(self, answer: Answer) -> None:
        """One line for each recording."""
        table = [
            (f"{run.total:,}", moment(run.created), _status(run), _named(run))
            for run in answer.runs
        ]
        for line in rows(table, right=frozenset({0})):
            self._line(line)

    def hits(self, answer: Answer, terms: Sequence[Term]) -> None:
        """Every hit that is there."""
        for run in answer.runs:
            if run.hits:
                head = f"{_named(run)}  {_status(run)}  {moment(run.created)}"
                print(head, file=self._out)  # whole: somebody may copy the path
                self._table(run, terms)
                if run.total > len(run.hits):
                    left = count(run.total - len(run.hits), "more hit")
                    print(f"  and {left}", file=self._out)
                print(file=self._out)

    def _table(self, run: Run, terms: Sequence[Term]) -> None:
        table = [(str(hit.seq or "-"), clock_time(hit.ts), _what(hit)) for hit in run.hits]
        front = rows(table, right=frozenset({0}))
        width = max(map(cell_width, front))
        beside = not self._width or self._width - width - 4 >= _LEAST
        for line, hit in zip(front, run.hits, strict=True):
            start = f"  {line}{' ' * (width - cell_width(line))}  " if beside else " " * 6
            if not beside:
                self._line(f"  {line}")
            room = self._width - cell_width(start) if self._width else _WHOLE
            print((start + self._found(hit, terms, room)).rstrip(), file=self._out)

    def _line(self, text: str) -> None:
        print(clip(text, self._width), file=self._out)

    def _found(self, hit: Hit, terms: Sequence[Term], room: int) -> str:
        if not hit.passages:
            return ""
        first = hit.passages[0]
        label = "" if first.role == CALL else f"{escape_controls(first.role)}: "
        tail = f"  (+{count(first.again, 'call')})" if first.again else ""
        return label + self._marked(first, terms, max(1, room - cell_width(label + tail))) + tail

    def _marked(self, passage: Passage, terms: Sequence[Term], room: int) -> str:
        """The marks of plain text take room; the escapes of a terminal do not."""
        start, end = _COLOURED if self._coloured else _PLAIN
        found = excerpt(passage.text, terms, room)
        if not self._coloured:
            room -= 2 * len(found.marks)
            found = excerpt(passage.text, terms, max(1, room))
        shown = ""
        for text, marked in found.pieces():
            piece = clip(escape_controls(text), room) if room > 0 else ""
            room -= cell_width(piece)
            shown += f"{start}{piece}{end}" if marked and piece else piece
        return shown


def _named(run: Run) -> str:
    return escape_controls(_short(run.path))


def _status(run: Run) -> str:
    if run.report is not None:
        return "report"
    return f"exit {run.exit_code}" if run.exit_code else escape_controls(run.status)


def _what(hit: Hit) -> str:
    name = "" if hit.name == hit.kind else hit.name
    outcome = ""
    if hit.kind == "network" or (hit.failed and hit.status):
        outcome = str(hit.status or "")
    elif hit.failed and not hit.diverged:
        outcome = "failed"
    kind = "" if hit.kind == "divergence" else hit.kind
    words = clip(escape_controls(" ".join(filter(None, (kind, name)))), _NAME)
    return f"{words} {outcome}".rstrip()


def _short(path: Path) -> str:
    """As somebody in this folder would write it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def command_for(run: Run, hit: Hit) -> str:
    """The command that shows a hit whole."""
    path = shlex.quote(_short(run.path))
    if run.status == "unfinished" and run.report is None:
        lane = f" --lane {hit.lane}"
        return f"reenact show --follow {path}{lane} --from {hit.seq} --to {hit.seq}"
    return f"reenact show {path} {hit.seq}" if hit.seq else f"reenact show {path}"


def page_for(run: Run) -> str:
    """The command that makes a page of the recording."""
    marked = "" if run.report is None else f" --report {shlex.quote(_short(run.report))}"
    return f"reenact view {shlex.quote(_short(run.path))}{marked}"


def as_json(result: Result, question: Question) -> dict[str, Any]:
    """Version 1."""
    return {
        "version": VERSION,
        "total": result.answer.total,
        "searched": result.searched,
        "recordings": [_run(run, question.terms) for run in result.answer.runs],
        "unreadable": [
            {"path": _short(one.path), "problem": one.problem, "hint": one.hint}
            for one in result.troubles
        ],
        "index": {
            "path": None if result.index is None else str(result.index),
            "read": result.progress.read,
            "events": result.progress.events,
            "removed": result.progress.removed,
        },
    }


def _run(run: Run, terms: Sequence[Term]) -> dict[str, Any]:
    return {
        "path": _short(run.path),
        "captureId": run.capture,
        "status": run.status,
        "exitCode": run.exit_code,
        "createdAt": run.created,
        "report": None if run.report is None else _short(run.report),
        "total": run.total,
        "hits": [_hit(run, hit, terms) for hit in run.hits],
    }


def _hit(run: Run, hit: Hit, terms: Sequence[Term]) -> dict[str, Any]:
    return {
        "seq": hit.seq or None,
        "closed": hit.closed or None,
        "lane": hit.lane,
        "ts": hit.ts,
        "type": hit.kind,
        "name": hit.name,
        "status": hit.status or None,
        "failed": hit.failed,
        "diverged": hit.diverged or None,
        "show": command_for(run, hit),
        "link": f"#event-{hit.seq}" if hit.seq else None,
        "texts": [_passage(one, terms) for one in hit.passages],
    }


def _passage(passage: Passage, terms: Sequence[Term]) -> dict[str, Any]:
    found = excerpt(passage.text, terms, _WHOLE)
    return {
        "role": passage.role,
        "excerpt": found.text,
        "marks": found.marks,
        "size": len(passage.text),
        "again": passage.again,
    }
