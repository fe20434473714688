"""A search from its beginning to its end: find the recordings, update the index, ask it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from reenact.search.answering import Answer, Question, Trouble, answer, searched, troubles
from reenact.search.known import differing, gone, key_of, read_known
from reenact.search.opening import Index, Say, is_damage
from reenact.search.places import index_files
from reenact.search.progress import Progress
from reenact.search.scanning import Found, scan
from reenact.search.schema import can_find_words

__all__ = ["Result", "search"]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and how. ``index`` is None when it was in memory."""

    answer: Answer
    troubles: list[Trouble]
    progress: Progress
    searched: int
    """Recordings."""
    index: Path | None
    words: bool


def search(
    root: Path,
    places: Sequence[Path],
    question: Question,
    *,
    environ: Mapping[str, str],
    say: Say,
    anew: bool = False,
    words: bool | None = None,
) -> Result:
    """Ask for ``question`` in everything under ``places``, with the index of the project ``root``.

    ``anew`` makes the index again; ``words`` is whether SQLite has FTS5, if that need not be found
    out. Recordings are only read. Raises :class:`RecordingMissing` for a place that is not there,
    :class:`UsageError` for a question that makes no sense.
    """
    found = scan(places)
    if words is None:
        words = can_find_words()
    if not words:
        say("the SQLite of this Python has no FTS5: every text is looked at, which takes longer")
    for path in index_files(root, environ, words=words):
        for _ in range(2):
            try:
                with Index(path, words=words, say=say) as index:
                    try:
                        return _search(index, root, places, found, question, anew, say)
                    except sqlite3.Error as error:
                        if not is_damage(error):
                            raise
                        index.discard()
                        say(f"the index {path} is damaged ({error}): made anew")
            except (sqlite3.Error, OSError) as error:
                say(f"the index cannot be kept at {path}: {_reason(error)}")
                break
    say("the index is made in memory, for this search only")
    with Index(None, words=words, say=say) as index:
        return _search(index, root, places, found, question, anew, say)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _search(
    index: Index,
    root: Path,
    places: Sequence[Path],
    found: Mapping[Path, Found],
    question: Question,
    anew: bool,
    say: Say,
) -> Result:
    keyed = {key_of(path, root): one for path, one in found.items()}
    under = [key_of(place, root) for place in places]
    progress = _updated(index, root, keyed, under, anew, say)
    return Result(
        answer=answer(index.database, root, keyed, question, index.words),
        troubles=troubles(index.database, root, keyed),
        progress=progress,
        searched=searched(index.database, keyed),
        index=index.path,
        words=index.words,
    )


def _updated(
    index: Index,
    root: Path,
    found: dict[bytes, Found],
    places: list[bytes],
    anew: bool,
    say: Say,
) -> Progress:
    known = read_known(index.database)
    if not (anew or differing(known, found) or gone(known, found, places)):
        return Progress()
    # Reading recordings takes much that asking does not.
    from reenact.search.updating import Updater

    with index.changing() as database:
        updater = Updater(database, root, words=index.words, say=say)
        if anew:
            updater.empty()
        return updater.update(found, places)
