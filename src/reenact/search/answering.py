"""What an index says to a question."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from reenact.search.asking import Term
from reenact.search.facts import CALL
from reenact.search.wishes import Wishes, conditions

__all__ = [
    "Answer",
    "Hit",
    "Passage",
    "Question",
    "Run",
    "Trouble",
    "answer",
    "searched",
    "troubles",
]


_ENDED = (
    "SELECT ends.status FROM calls AS ends "
    "WHERE ends.recording = runs.id AND ends.type = 'run_end' LIMIT 1"
)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """All ``terms`` have to be in the texts of one call, those that are unwanted in none of them."""

    terms: tuple[Term, ...] = ()
    wishes: Wishes = Wishes()
    limit: int | None = None
    """Of hits; None for all."""


class Passage(msgspec.Struct, frozen=True):
    """A text of a call. ``again``: so many later calls say it, too."""

    role: str
    text: str
    again: int


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was found. ``passages`` are the texts in which, those with most of the words
    first; where no words were asked for, what went wrong and what was called."""

    seq: int
    closed: int
    log: str
    ts: int
    lane: str
    kind: str
    name: str
    status: int
    failed: bool
    diverged: str
    passages: list[Passage]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A recording in which something was found: ``total`` hits, of which ``hits`` are here.

    Of a divergence ``path`` is the recording that the report is about, if it says that.
    """

    path: Path
    capture: str
    status: str
    exit_code: int | None
    """Of the program, where it is known."""
    created: int
    total: int
    hits: list[Hit]
    report: Path | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Recordings from the newest to the oldest, the hits of each in the order of its events."""

    total: int
    runs: list[Run]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A recording that could not be searched."""

    path: Path
    problem: str
    hint: str


_TABLES = {
    "scope": "id INTEGER PRIMARY KEY",
    "found": "term INTEGER, text INTEGER, UNIQUE (term, text)",
    "chosen": "call INTEGER PRIMARY KEY, recording INTEGER",
}
"""For one question: recordings to search in, texts with its terms, and the calls that it means."""


def answer(
    database: sqlite3.Connection,
    root: Path,
    scope: Iterable[bytes],
    question: Question,
    words: bool,
) -> Answer:
    """Look in the recordings named in ``scope`` (by their keys). ``words``: there are pieces."""
    for name, columns in _TABLES.items():
        database.execute(f"CREATE TEMP TABLE {name} ({columns})")
    try:
        database.executemany(
            "INSERT OR IGNORE INTO scope SELECT id FROM recordings WHERE path = ?",
            [(key,) for key in scope],
        )
        for number, term in enumerate(question.terms):
            rows = ((number, text) for text in texts_with(database, term, words))
            database.executemany("INSERT INTO found VALUES (?, ?)", rows)
        _choose(database, question)
        return _answer(database, root, question)
    finally:
        for name in _TABLES:
            database.execute(f"DROP TABLE {name}")


def texts_with(database: sqlite3.Connection, term: Term, words: bool) -> Iterator[int]:
    """The texts that have ``term``; the index only says which may."""
    grams = term.grams() if words else ""
    if grams:
        rows = database.execute(
            "SELECT texts.id, texts.body FROM words JOIN texts ON texts.id = words.rowid "
            "WHERE words MATCH ?",
            (grams,),
        )
    else:
        rows = database.execute("SELECT id, body FROM texts")
    has = term.finder()
    return (number for number, body in rows if has(body))


def _choose(database: sqlite3.Connection, question: Question) -> None:
    """Begin with the calls that have the first word: mostly they are few."""
    having = "SELECT DISTINCT call FROM found CROSS JOIN places USING (text) WHERE term = ?"
    begin: tuple[object, ...] = ()
    calls = "calls"
    found = [("runs.id IN (SELECT id FROM scope)", ()), *conditions(question.wishes)]
    for number, term in enumerate(question.terms):
        if not term.unwanted and not begin:
            begin = (number,)
            calls = f"({having}) AS first CROSS JOIN calls ON calls.id = first.call"
        else:
            found.append((f"calls.id {'NOT IN' if term.unwanted else 'IN'} ({having})", (number,)))
    where = " AND ".join(words for words, _ in found)
    values = tuple(value for _, several in found for value in several)
    database.execute(
        "INSERT INTO chosen SELECT calls.id, runs.id "
        f"FROM {calls} CROSS JOIN recordings AS runs ON runs.id = calls.recording WHERE {where}",
        (*begin, *values),
    )
    database.execute("CREATE INDEX temp.chosen_of ON chosen (recording)")


def _answer(database: sqlite3.Connection, root: Path, question: Question) -> Answer:
    counted = database.execute(
        "SELECT runs.id, runs.path, runs.about, runs.capture, runs.status, runs.created, total, "
        f"({_ENDED}) FROM (SELECT recording, count(*) AS total FROM chosen GROUP BY recording) "
        "JOIN recordings AS runs ON runs.id = recording "
        "ORDER BY runs.created DESC, runs.path DESC",
    ).fetchall()
    left = question.limit
    runs: list[Run] = []
    for number, path, about, capture, status, created, total, code in counted:
        most = total if left is None else min(left, total)
        hits = list(_hits(database, number, question.terms, most)) if most else []
        left = None if left is None else left - len(hits)
        runs.append(
            Run(
                path=_path(root, about or path),
                capture=capture,
                status=status,
                exit_code=code,
                created=created,
                total=total,
                hits=hits,
                report=_path(root, path) if about else None,
            )
        )
    return Answer(total=sum(run.total for run in runs), runs=runs)


def _hits(
    database: sqlite3.Connection, run: int, terms: tuple[Term, ...], most: int
) -> Iterator[Hit]:
    names = "seq closed log ts lane kind name status failed diverged".split()
    columns = ", ".join(f"calls.{name}" for name in names)
    rows = database.execute(
        f"SELECT calls.id, {columns} FROM chosen JOIN calls ON calls.id = chosen.call "
        "WHERE chosen.recording = ? ORDER BY calls.log, calls.seq, calls.id LIMIT ?",
        (run, most),
    ).fetchall()
    for number, *cells in rows:
        fields = dict(zip(names, cells, strict=True))
        fields["failed"] = bool(fields["failed"])
        yield Hit(**fields, passages=_passages(database, number, terms))


def _passages(database: sqlite3.Connection, call: int, terms: tuple[Term, ...]) -> list[Passage]:
    wanted = [term for term in terms if not term.unwanted]
    rows = database.execute(
        "SELECT role, body, again FROM places JOIN texts ON texts.id = places.text "
        "WHERE call = ? ORDER BY number",
        (call,),
    )
    found = [Passage(*row) for row in rows]
    if not wanted:
        told = [one for one in found if one.role in (CALL, "error")]
        return sorted(told, key=lambda one: one.role == CALL)
    having = [(sum(term.is_in(one.text) for term in wanted), one) for one in found]
    best = sorted(having, key=lambda one: -one[0])
    return [one for number, one in best if number]


def _path(root: Path, key: bytes) -> Path:
    return root / os.fsdecode(key)


def troubles(database: sqlite3.Connection, root: Path, scope: Iterable[bytes]) -> list[Trouble]:
    """Of the recordings in ``scope``, those that cannot be read."""
    asked = "SELECT path, problem, hint FROM recordings WHERE problem <> '' ORDER BY path"
    wanted = set(scope)
    return [
        Trouble(path=_path(root, path), problem=problem, hint=hint)
        for path, problem, hint in database.execute(asked)
        if path in wanted
    ]


def searched(database: sqlite3.Connection, scope: Iterable[bytes]) -> int:
    """How many of ``scope`` are recordings; other files of lines, and reports, are none."""
    wanted = set(scope)
    asked = "SELECT path FROM recordings WHERE status <> '' AND form <> 'report'"
    return sum(path in wanted for (path,) in database.execute(asked))
