"""Search: finds the recordings, updates the index and queries it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from reenact.search.extraction import CALL
from reenact.search.index import Index, Notify, has_full_text, index_files, is_damage
from reenact.search.query import Filters, Term, conditions
from reenact.search.sources import SourceFile, scan
from reenact.search.updater import Progress, Updater, differing, key_of, read_known, removed

__all__ = [
    "Hit",
    "Passage",
    "Query",
    "QueryResult",
    "Result",
    "Run",
    "UnreadableSource",
    "count_sources",
    "query_index",
    "search",
    "unreadable_sources",
]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a search. ``index`` is None for an index in memory."""

    matches: QueryResult
    unreadable: list[UnreadableSource]
    progress: Progress
    sources: int
    """Number of recordings searched."""
    index: Path | None
    words: bool


def search(
    root: Path,
    places: Sequence[Path],
    query: Query,
    *,
    environ: Mapping[str, str],
    notify: Notify,
    rebuild: bool = False,
    words: bool | None = None,
) -> Result:
    """Search all recordings under ``places``, with the index of the project ``root``.

    ``rebuild`` rebuilds the index. ``words`` is True if SQLite has FTS5; None checks that. Recordings
    are only read. Raises :class:`RecordingMissing` for a missing place and :class:`UsageError` for
    an invalid query.
    """
    found = scan(places)
    if words is None:
        words = has_full_text()
    if not words:
        notify(
            "the SQLite of this Python has no FTS5: the search reads every text, which takes longer"
        )
    for path in index_files(root, environ, words=words):
        for _ in range(2):
            try:
                with Index(path, words=words, notify=notify) as index:
                    try:
                        return _search(index, root, places, found, query, rebuild, notify)
                    except sqlite3.Error as error:
                        if not is_damage(error):
                            raise
                        index.discard()
                        notify(f"the index {path} is damaged ({error}): created again")
            except (sqlite3.Error, OSError) as error:
                notify(f"the index cannot be stored at {path}: {_reason(error)}")
                break
    notify("the index is made in memory, for this search only")
    with Index(None, words=words, notify=notify) as index:
        return _search(index, root, places, found, query, rebuild, notify)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _search(
    index: Index,
    root: Path,
    places: Sequence[Path],
    found: Mapping[Path, SourceFile],
    query: Query,
    rebuild: bool,
    notify: Notify,
) -> Result:
    keyed = {key_of(path, root): one for path, one in found.items()}
    under = [key_of(place, root) for place in places]
    progress = _updated(index, root, keyed, under, rebuild, notify)
    return Result(
        matches=query_index(index.database, root, keyed, query, index.words),
        unreadable=unreadable_sources(index.database, root, keyed),
        progress=progress,
        sources=count_sources(index.database, keyed),
        index=index.path,
        words=index.words,
    )


def _updated(
    index: Index,
    root: Path,
    found: dict[bytes, SourceFile],
    places: list[bytes],
    rebuild: bool,
    notify: Notify,
) -> Progress:
    known = read_known(index.database)
    if not (rebuild or differing(known, found) or removed(known, found, places)):
        return Progress()
    with index.changing() as database:
        updater = Updater(database, root, words=index.words, notify=notify)
        if rebuild:
            updater.empty()
        return updater.update(found, places)


_ENDED = (
    "SELECT ends.status FROM calls AS ends "
    "WHERE ends.recording = runs.id AND ends.type = 'run_end' LIMIT 1"
)


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Search terms and filters.

    All ``terms`` must occur in the texts of one call, and unwanted terms in none of them.
    """

    terms: tuple[Term, ...] = ()
    filters: Filters = Filters()
    limit: int | None = None
    """Maximum number of hits; None for all."""


class Passage(msgspec.Struct, frozen=True):
    """Text of a call. ``again`` is the number of later calls that repeat it."""

    role: str
    text: str
    again: int


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """Call that matches the query.

    ``passages`` are its texts with matches, those with the most terms first. Without terms, they
    are its errors and the text that describes the call.
    """

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
    """Recording with ``total`` matches, of which ``hits`` are included.

    For divergences, ``report`` is the file with the report and ``path`` its recording, if known.
    """

    path: Path
    capture: str
    status: str
    exit_code: int | None
    """Exit code of the program, if known."""
    created: int
    total: int
    hits: list[Hit]
    report: Path | None = None


class QueryResult(msgspec.Struct, frozen=True, kw_only=True):
    """Recordings with matches, newest first. The hits of each are in the order of its events."""

    total: int
    runs: list[Run]


class UnreadableSource(msgspec.Struct, frozen=True, kw_only=True):
    """File that could not be searched."""

    path: Path
    problem: str
    hint: str


_TABLES = {
    "scope": "id INTEGER PRIMARY KEY",
    "found": "term INTEGER, text INTEGER, UNIQUE (term, text)",
    "chosen": "call INTEGER PRIMARY KEY, recording INTEGER",
}
"""Temporary tables of a query: recordings to search, texts with its terms, and matching calls."""


def query_index(
    database: sqlite3.Connection,
    root: Path,
    scope: Iterable[bytes],
    query: Query,
    words: bool,
) -> QueryResult:
    """Search the recordings with the keys in ``scope``.

    ``words`` is True for an index with trigrams.
    """
    for name, columns in _TABLES.items():
        database.execute(f"CREATE TEMP TABLE {name} ({columns})")
    try:
        database.executemany(
            "INSERT OR IGNORE INTO scope SELECT id FROM recordings WHERE path = ?",
            [(key,) for key in scope],
        )
        for number, term in enumerate(query.terms):
            rows = ((number, text) for text in texts_with(database, term, words))
            database.executemany("INSERT INTO found VALUES (?, ?)", rows)
        _choose(database, query)
        return _answer(database, root, query)
    finally:
        for name in _TABLES:
            database.execute(f"DROP TABLE {name}")


def texts_with(database: sqlite3.Connection, term: Term, words: bool) -> Iterator[int]:
    """Return the ids of the texts that contain ``term``. The trigrams only provide candidates."""
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


def _choose(database: sqlite3.Connection, query: Query) -> None:
    """Store the matching calls in the table ``chosen``.

    The query begins with the calls that contain the first term, because these are mostly few.
    """
    having = "SELECT DISTINCT call FROM found CROSS JOIN places USING (text) WHERE term = ?"
    begin: tuple[object, ...] = ()
    calls = "calls"
    found = [("runs.id IN (SELECT id FROM scope)", ()), *conditions(query.filters)]
    for number, term in enumerate(query.terms):
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


def _answer(database: sqlite3.Connection, root: Path, query: Query) -> QueryResult:
    counted = database.execute(
        "SELECT runs.id, runs.path, runs.about, runs.capture, runs.status, runs.created, total, "
        f"({_ENDED}) FROM (SELECT recording, count(*) AS total FROM chosen GROUP BY recording) "
        "JOIN recordings AS runs ON runs.id = recording "
        "ORDER BY runs.created DESC, runs.path DESC",
    ).fetchall()
    left = query.limit
    runs: list[Run] = []
    for number, path, about, capture, status, created, total, code in counted:
        most = total if left is None else min(left, total)
        hits = list(_hits(database, number, query.terms, most)) if most else []
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
    return QueryResult(total=sum(run.total for run in runs), runs=runs)


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
    required = [term for term in terms if not term.unwanted]
    rows = database.execute(
        "SELECT role, body, again FROM places JOIN texts ON texts.id = places.text "
        "WHERE call = ? ORDER BY number",
        (call,),
    )
    found = [Passage(*row) for row in rows]
    if not required:
        shown = [one for one in found if one.role in (CALL, "error")]
        return sorted(shown, key=lambda one: one.role == CALL)
    having = [(sum(term.is_in(one.text) for term in required), one) for one in found]
    best = sorted(having, key=lambda one: -one[0])
    return [one for number, one in best if number]


def _path(root: Path, key: bytes) -> Path:
    return root / os.fsdecode(key)


def unreadable_sources(
    database: sqlite3.Connection, root: Path, scope: Iterable[bytes]
) -> list[UnreadableSource]:
    """Return the unreadable files in ``scope``."""
    query = "SELECT path, problem, hint FROM recordings WHERE problem <> '' ORDER BY path"
    keys = set(scope)
    return [
        UnreadableSource(path=_path(root, path), problem=problem, hint=hint)
        for path, problem, hint in database.execute(query)
        if path in keys
    ]


def count_sources(database: sqlite3.Connection, scope: Iterable[bytes]) -> int:
    """Return the number of recordings in ``scope``, without reports and files of other kinds."""
    keys = set(scope)
    query = "SELECT path FROM recordings WHERE status <> '' AND form <> 'report'"
    return sum(path in keys for (path,) in database.execute(query))
