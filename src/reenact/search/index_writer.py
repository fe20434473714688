"""Writer that adds calls and their texts to the index, and a function that removes them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from operator import attrgetter

from reenact.format.event import Event
from reenact.search.extraction import Call, CallText, close_call, open_call, opening_type

__all__ = ["Writer", "remove"]

_COLUMNS = (
    *("recording", "log", "seq", "closed", "ts", "type", "lane", "kind", "name", "provider"),
    *("model", "method", "url", "host", "status", "failed", "diverged", "call_id", "lens"),
)
_CALL = (
    f"INSERT INTO calls (id, {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * (len(_COLUMNS) + 1))})"
)
_CLOSE = "UPDATE calls SET closed = ?, status = ?, failed = ?, diverged = ? WHERE id = ?"
_PLACE = "INSERT INTO places (call, number, role, text, retold, again) VALUES (?, ?, ?, ?, ?, ?)"
_BATCH = 512
_REMEMBERED = 1 << 17


class Writer:
    """Writer of the calls of one recording. It continues after the last update.

    Use it inside a transaction.
    """

    def __init__(self, database: sqlite3.Connection, recording: int, *, words: bool) -> None:
        self._database = database
        self._recording = recording
        self._words = words
        self._next_call = _next_id(database, "calls")
        self._next_text = _next_id(database, "texts")
        self._open: dict[int, Call] = {}
        """Calls that wait for their second event, by id in the index."""
        self._numbered: dict[tuple[str, int], int] = {}
        """Ids of open calls by log and sequence number."""
        self._written: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._messages: dict[int, list[int]] = {}
        """Stored messages of conversations, by text: call, number, repetitions, last call with the
        text."""
        self._changed: set[int] = set()
        self._digests: dict[bytes, int] = {}
        """Ids of recently used texts, by digest."""
        self._calls: list[tuple[object, ...]] = []
        self._places: list[tuple[object, ...]] = []
        self._texts: list[tuple[int, bytes, str]] = []
        self._resume()

    def _resume(self) -> None:
        """Load the calls that were open after the last update, and the stored messages."""
        names = ", ".join(_COLUMNS[1:])
        found = self._database.execute(
            f"SELECT id, {names} FROM calls WHERE recording = ? "
            "AND closed = 0 AND type IN ('llm_request', 'tool_call') ORDER BY id",
            (self._recording,),
        )
        for number, *values in found:
            self._opened(number, Call(**dict(zip(_COLUMNS[1:], values, strict=True))))
            self._written.add(number)
        messages = self._database.execute(
            "SELECT text, call, number, again FROM places JOIN calls ON calls.id = call "
            "WHERE recording = ? AND (retold OR role = 'answer') ORDER BY places.id DESC",
            (self._recording,),
        )
        self._messages = {text: [*rest, 0] for text, *rest in messages}

    def add(self, log: str, event: Event) -> None:
        """Add the next event of the recording, or of its segment ``log``."""
        before = opening_type(event.type)
        number = None if before is None else self._opening(log, before, event)
        if number is None:
            self._begin(log, event)
            return
        call = self._open.pop(number)
        del self._numbered[call.log, call.seq]
        call.texts = []
        close_call(call, event)
        if number in self._written:
            row = (call.closed, call.status, call.failed, call.diverged, number)
            self._database.execute(_CLOSE, row)
        else:
            self._put(number, call)
        self._add_texts(number, call.texts)

    def _begin(self, log: str, event: Event) -> None:
        call = open_call(event)
        if call is None:
            return
        call.log = log
        number = self._new(call)
        if event.type in ("llm_request", "tool_call"):
            self._opened(number, call)
        else:
            self._put(number, call)

    def put(self, call: Call) -> None:
        """Add a complete call."""
        self._put(self._new(call), call)

    def _new(self, call: Call) -> int:
        number, self._next_call = self._next_call, self._next_call + 1
        self._add_texts(number, call.texts)
        return number

    def _opened(self, number: int, call: Call) -> None:
        self._open[number] = call
        self._numbered[call.log, call.seq] = number

    def _opening(self, log: str, type: str, event: Event) -> int | None:
        """Return the id of the open call that ``event`` completes; None if there is none.

        This is the parent of the event, or else the first matching call of its lane.
        """
        named = self._numbered.get((log, event.parent or 0))
        if named is not None and _belongs(event, type, self._open[named]):
            return named
        for number, call in self._open.items():
            if (call.log, call.lane) == (log, event.lane) and _belongs(event, type, call):
                return number
        return None

    def _put(self, number: int, call: Call) -> None:
        self._calls.append((number, self._recording, *_row(call)))
        if len(self._calls) >= _BATCH:
            self._flush()

    def _add_texts(self, call: int, texts: Iterable[CallText]) -> None:
        for one in texts:
            text = self._text(one.text)
            before = self._messages.get(text)
            if one.repeated and before is not None:
                if call not in (before[0], before[3]):
                    before[2:] = before[2] + 1, call
                    self._changed.add(text)
                continue
            number = self._number(call)
            self._places.append((call, number, _clean(one.role), text, one.repeated, 0))
            if one.repeated or one.role == "answer":
                self._messages.setdefault(text, [call, number, 0, call])

    def _number(self, call: int) -> int:
        found = self._numbers.get(call)
        if found is None and call in self._written:
            query = "SELECT coalesce(max(number) + 1, 0) FROM places WHERE call = ?"
            (found,) = self._database.execute(query, (call,)).fetchone()
        self._numbers[call] = (found or 0) + 1
        return found or 0

    def _text(self, body: str) -> int:
        body = body.replace("\0", "\ufffd")  # SQLite does not index text after a NUL
        try:
            encoded = body.encode()
        except UnicodeEncodeError:
            body = _clean(body)
            encoded = body.encode()
        digest = hashlib.blake2b(encoded, digest_size=16).digest()
        known = self._digests.get(digest)
        if known is not None:
            return known
        query = "SELECT id FROM texts WHERE digest = ?"
        found = self._database.execute(query, (digest,)).fetchone()
        if found is None:
            number, self._next_text = self._next_text, self._next_text + 1
            self._texts.append((number, digest, body))
        else:
            number = int(found[0])
        self._digests[digest] = number
        return number

    def _flush(self) -> None:
        self._database.executemany(_CALL, self._calls)
        self._database.executemany(_PLACE, self._places)
        self._database.executemany("INSERT INTO texts VALUES (?, ?, ?)", self._texts)
        if self._words:
            words = ((number, body) for number, _, body in self._texts)
            self._database.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", words)
        for rows in (self._calls, self._places, self._texts):
            rows.clear()
        if len(self._digests) > _REMEMBERED:
            self._digests.clear()

    def finish(self) -> None:
        """Write all buffered rows, including calls that are still open."""
        for number, call in self._open.items():
            if number not in self._written:
                self._put(number, call)
        self._flush()
        again = [(self._messages[text][2], *self._messages[text][:2]) for text in self._changed]
        update = "UPDATE places SET again = ? WHERE call = ? AND number = ?"
        self._database.executemany(update, again)


def _belongs(event: Event, type: str, call: Call) -> bool:
    given = event.data.get("callId")
    return call.type == type and (not given or not call.call_id or given == call.call_id)


_values = attrgetter(*_COLUMNS[1:])


def _row(call: Call) -> tuple[object, ...]:
    found: tuple[object, ...] = _values(call)
    try:
        "".join(one for one in found if isinstance(one, str)).encode()
    except UnicodeEncodeError:
        return tuple(_clean(one) if isinstance(one, str) else one for one in found)
    return found


def _clean(text: str) -> str:
    """Escape lone surrogates, which SQLite rejects."""
    return text.encode("utf-8", "backslashreplace").decode()


def _next_id(database: sqlite3.Connection, table: str) -> int:
    query = f"SELECT coalesce(max(id), 0) + 1 FROM {table}"
    (found,) = database.execute(query).fetchone()
    return int(found)


def remove(database: sqlite3.Connection, recording: int, *, words: bool) -> None:
    """Remove the calls of a recording, and the texts that no other call has.

    Use it inside a transaction.
    """
    mine = "SELECT id FROM calls WHERE recording = ?"
    texts = f"SELECT DISTINCT text FROM places WHERE call IN ({mine})"
    had = [text for (text,) in database.execute(texts, (recording,))]
    database.execute(f"DELETE FROM places WHERE call IN ({mine})", (recording,))
    database.execute("DELETE FROM calls WHERE recording = ?", (recording,))
    for text in had:
        if database.execute("SELECT 1 FROM places WHERE text = ?", (text,)).fetchone() is None:
            if words:
                database.execute(
                    "INSERT INTO words (words, rowid, body) "
                    "SELECT 'delete', id, body FROM texts WHERE id = ?",
                    (text,),
                )
            database.execute("DELETE FROM texts WHERE id = ?", (text,))
