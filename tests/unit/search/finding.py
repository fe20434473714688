"""A project with recordings, and searches in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reenact.format.event import Draft
from reenact.search.query import Filters, read_terms
from reenact.search.search import Query, Result, search
from reenact.store.recording import Recording, start_recording

__all__ = ["Project", "add", "begin", "contents", "hits", "record", "tool"]


def begin(path: Path) -> Recording:
    path.parent.mkdir(parents=True, exist_ok=True)
    return start_recording(path, redaction="none", seal=False, durability="none")


def add(recording: Recording, type: str, data: dict[str, Any], parent: int | None = None) -> int:
    return recording.sink.append(Draft(type=type, data=data, ts=1_000, parent=parent))


def tool(recording: Recording, text: str, *, answered: bool = True) -> None:
    """A call of a tool that is given ``text`` and gives it back in capitals."""
    seq = add(recording, "tool_call", {"name": "say", "args": {"text": text}})
    if answered:
        add(recording, "tool_result", {"ok": True, "result": text.upper()}, seq)


def record(path: Path, *texts: str) -> Path:
    with begin(path) as recording:
        for text in texts:
            tool(recording, text)
    return path


@dataclass
class Project:
    """``said`` is what people were told."""

    root: Path
    environ: dict[str, str]
    said: list[str] = field(default_factory=list)

    @property
    def runs(self) -> Path:
        return self.root / ".reenact" / "runs"

    @property
    def index(self) -> Path:
        return self.root / ".reenact" / "cache" / "search.sqlite3"

    def say(self, text: str) -> None:
        if not text.startswith(("reading", "waiting")):  # which a slow machine says
            self.said.append(text)

    def ask(
        self, *words: str, anew: bool = False, words_known: bool | None = None, **filters: Any
    ) -> Result:
        question = Query(terms=read_terms(words), filters=Filters(**filters))
        return search(
            self.root,
            [self.root / ".reenact"],
            question,
            environ=self.environ,
            notify=self.say,
            rebuild=anew,
            words=words_known,
        )

    def found(self, *words: str, **filters: Any) -> list[tuple[str, int]]:
        """The hits: name of the recording, seq."""
        return hits(self.ask(*words, **filters))


def hits(result: Result) -> list[tuple[str, int]]:
    return [(run.path.name, hit.seq) for run in result.matches.runs for hit in run.hits]


def contents(database: Any) -> dict[str, list[Any]]:
    """Everything that an index says, without the numbers that it gave."""
    calls = database.execute(
        "SELECT path, log, seq, closed, ts, type, lane, kind, name, calls.status, failed, diverged, "
        "call_id, calls.id FROM calls JOIN recordings ON recordings.id = recording "
        "ORDER BY path, log, seq"
    ).fetchall()
    return {
        "recordings": database.execute(
            "SELECT path, form, stamp, digest, capture, status, created, events, read, problem "
            "FROM recordings ORDER BY path"
        ).fetchall(),
        "calls": [(*call, list(_places(database, number))) for *call, number in calls],
        "texts": sorted(body for (body,) in database.execute("SELECT body FROM texts")),
        "words": sorted(database.execute("SELECT count(*) FROM words WHERE words MATCH 'say'")),
    }


def _places(database: Any, call: int) -> Iterator[Any]:
    yield from database.execute(
        "SELECT role, body, retold, again FROM places JOIN texts ON texts.id = text "
        "WHERE call = ? ORDER BY number",
        (call,),
    )
