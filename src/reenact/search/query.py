"""Queries: search terms, excerpts, filters and dates. Pure functions, independent of the index."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from reenact.errors import UsageError

__all__ = [
    "Excerpt",
    "Filters",
    "Term",
    "clock_time",
    "conditions",
    "excerpt",
    "fold",
    "moment",
    "read_moment",
    "read_terms",
]

_GRAM = 3
"""Length of the character sequences by which the index finds texts."""

_TOKEN = re.compile(r'(-?)(?:"([^"]*)"|(\S+))')


def fold(text: str) -> str:
    """Return ``text`` without case distinctions, with every character at its position."""
    folded = text.casefold()
    return folded if len(folded) == len(text) else "".join(map(_fold_one, text))


def _fold_one(char: str) -> str:
    folded = char.casefold()
    return folded if len(folded) == 1 else char


class Term(msgspec.Struct, frozen=True):
    """Search term. It is also found inside words, unless ``starts`` is set.

    With ``starts``, a word must begin with it. Any white space matches any other. An ``unwanted``
    term must not occur.
    """

    text: str
    unwanted: bool = False
    starts: bool = False

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and end of each match in ``text``."""
        return [found.span() for found in self._pattern().finditer(fold(text))]

    def is_in(self, text: str) -> bool:
        """Return True if ``text`` contains the term."""
        return self.finder()(text)

    def finder(self) -> Callable[[str], bool]:
        """Return a function that checks whether a text contains the term."""
        if self.starts or len(self.text.split()) > 1:
            search = self._pattern().search
            return lambda text: search(fold(text)) is not None
        sought = fold(self.text.strip())
        return lambda text: sought in fold(text)

    def _pattern(self) -> re.Pattern[str]:
        words = map(re.escape, fold(self.text).split())
        # An underscore separates words: weather* matches get_weather.
        return re.compile((r"(?<![^\W_])" if self.starts else "") + r"\s+".join(words))

    def grams(self) -> str:
        """Return the FTS5 query that every text with this term matches; empty if there is none."""
        words = self.text.split()
        found = {word[at : at + _GRAM] for word in words for at in range(len(word) - _GRAM + 1)}
        quoted = ('"' + one.replace('"', '""') + '"' for one in sorted(found))
        return " AND ".join(quoted)


def read_terms(words: Iterable[str], unwanted: Iterable[str] = ()) -> tuple[Term, ...]:
    """Parse search terms of a command line: ``warm``, ``wea*``, ``-cold``, ``"two words"``.

    An argument with white space is a phrase, unless it contains quotes or a word with ``-``. Then
    it is split into several terms. Raises :class:`UsageError` for an empty term.
    """
    found = [term for word in words for term in _terms(word)]
    found += [msgspec.structs.replace(_term(word), unwanted=True) for word in unwanted]
    for term in found:
        if not term.text.strip():
            raise UsageError("the search text is empty", hint="give a text to search for")
    return tuple(found)


def _terms(word: str) -> list[Term]:
    if '"' not in word and not re.search(r"(^|\s)-\S", word):
        return [_term(word)]
    return [
        Term(quoted, bool(minus))
        if plain == ""
        else msgspec.structs.replace(_term(plain), unwanted=bool(minus))
        for minus, quoted, plain in _TOKEN.findall(word)
    ]


def _term(word: str) -> Term:
    if word.endswith("*") and word != "*":
        return Term(word[:-1], starts=True)
    return Term(word)


_BEFORE = 3
"""Divisor of the length of an excerpt, for the part before the first match."""
_CUT = "..."
_LEAST = 12


class Excerpt(msgspec.Struct, frozen=True):
    """One line of a text. ``marks`` are the starts and ends of the matches in ``text``."""

    text: str
    marks: list[tuple[int, int]]

    def pieces(self) -> list[tuple[str, bool]]:
        """Return ``text`` in pieces. Each has a flag that is True for a match."""
        found, last = [], 0
        for start, end in self.marks:
            found += [(self.text[last:start], False), (self.text[start:end], True)]
            last = end
        return [*found, (self.text[last:], False)]


def excerpt(text: str, terms: Iterable[Term], room: int) -> Excerpt:
    """Return at most ``room`` characters of ``text`` around the first match.

    The minimum of ``room`` is :data:`_LEAST`.
    """
    room = max(room, _LEAST)
    spans = sorted({span for term in terms if not term.unwanted for span in term.spans(text)})
    start, end = _window(len(text), spans[0][0] if spans else 0, room)
    head, tail = _CUT if start else "", _CUT if end < len(text) else ""
    shift = len(head) - start
    line = "".join(" " if char in "\n\r\t" else char for char in text[start:end])
    marks = [(a + shift, min(b, end) + shift) for a, b in spans if start <= a < end]
    return Excerpt(f"{head}{line}{tail}", _apart(marks))


def _window(size: int, first: int, room: int) -> tuple[int, int]:
    """Return the start and end of the part of a text of ``size`` that contains ``first``."""
    if size <= room:
        return 0, size
    start = first - room // _BEFORE
    if start <= len(_CUT):
        return 0, room - len(_CUT)
    inner = room - len(_CUT)
    if start + inner >= size:
        return size - inner, size
    return start, start + inner - len(_CUT)


def _apart(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping and adjacent marks."""
    found: list[tuple[int, int]] = []
    for start, end in marks:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


Condition = tuple[str, tuple[object, ...]]
"""SQL condition on ``calls`` and ``recordings`` (as ``runs``), and its values."""

_FAILED_RUN = (
    "EXISTS (SELECT 1 FROM calls AS ends WHERE ends.recording = runs.id "
    "AND ends.type = 'run_end' AND ends.failed)"
)


class Filters(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a search.

    Values of one filter are alternatives, and all filters must match. Names can contain ``*``.
    Times are in milliseconds, ``until`` is exclusive. An empty ``diverged`` matches any code.
    """

    types: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    failed: bool = False
    diverged: str | None = None
    since: int | None = None
    until: int | None = None


def conditions(filters: Filters) -> Iterator[Condition]:
    """Yield the SQL conditions that a call must satisfy.

    Raises :class:`UsageError` for an invalid status.
    """
    for name, condition in _CONDITIONS.items():
        yield from _any(getattr(filters, name), condition)
    if filters.failed:
        yield "calls.failed", ()
    if filters.diverged is not None:
        yield from _any([filters.diverged or "*"], _named("calls.diverged"))
        yield "calls.diverged <> ''", ()
    if filters.since is not None:
        yield "calls.ts >= ?", (filters.since,)
    if filters.until is not None:
        yield "calls.ts < ?", (filters.until,)


def _any(values: Iterable[str], condition: Callable[[str], Condition]) -> Iterator[Condition]:
    found: list[Condition] = [condition(value) for value in values]
    if found:
        words = " OR ".join(words for words, _ in found)
        yield f"({words})", tuple(item for _, items in found for item in items)


def _named(*columns: str) -> Callable[[str], Condition]:
    """Return a function that creates a condition on ``columns``.

    Case is ignored, and ``*`` matches any characters.
    """

    def condition(name: str) -> Condition:
        words = " OR ".join(f"{column} LIKE ? ESCAPE '!'" for column in columns)
        return words, (_pattern(name),) * len(columns)

    return condition


def _pattern(name: str) -> str:
    return re.sub(r"([!%_])", r"!\1", name).replace("*", "%")


def _both(first: str, column: str, name: str) -> Condition:
    return f"({first} AND {column} LIKE ? ESCAPE '!')", (_pattern(name),)


def _containing(text: str) -> Condition:
    return "calls.url LIKE ? ESCAPE '!'", (f"%{_pattern(text)}%",)


def _status(text: str) -> Condition:
    """Return the condition for a status such as ``404`` or ``4xx``, or for an exit code."""
    if re.fullmatch(r"[1-9]xx", text.lower()):
        first = int(text[0]) * 100
        return "calls.status BETWEEN ? AND ?", (first, first + 99)
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise UsageError(
            f"{text!r} is not a status", hint="use 404 or 5xx, or the exit code of a process"
        )
    return "(calls.status = ? AND (calls.host <> '' OR calls.kind IN ('process', 'run_end')))", (
        int(text),
    )


def _boundary(name: str) -> Condition:
    """Return the condition for a boundary such as ``net.fetch``, or for a name of a call."""
    from reenact.engine.call import SOURCES  # slow to import, and rarely needed

    kind = "tool" if name == "tool.call" else SOURCES.get(name, name)
    return "(calls.kind = ? OR calls.name = ?)", (kind, name)


def _lane(name: str) -> Condition:
    """Return the condition for a lane and all lanes below it."""
    return "(calls.lane = ? OR calls.lane LIKE ? ESCAPE '!')", (name, f"{_pattern(name)}.%")


def _run(status: str) -> Condition:
    """Return the condition for the status of a recording, such as ``ok`` or ``unfinished``.

    ``failed`` selects recordings whose program failed.
    """
    if status == "failed":
        return _FAILED_RUN, ()
    return "runs.status = ?", (status,)


_CONDITIONS: dict[str, Callable[[str], Condition]] = {
    "types": _named("calls.kind", "calls.type"),
    "models": _named("calls.model"),
    "providers": _named("calls.provider"),
    "tools": lambda name: _both("calls.kind = 'tool'", "calls.name", name),
    "urls": _containing,
    "hosts": _named("calls.host"),
    "methods": _named("calls.method"),
    "statuses": _status,
    "boundaries": _boundary,
    "lanes": _lane,
    "runs": _run,
}
"""Conditions for each value of a filter."""


_UNITS = {"s": "seconds", "min": "minutes", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,6})\s*(s|min|m|h|d|w)")
_DAYS = {"now": None, "today": 0, "yesterday": 1}


def read_moment(text: str, now: datetime, *, end: bool = False) -> int:
    """Parse a time and return milliseconds since the epoch.

    The zone of ``now`` applies to times without a zone. For a day, the result is its start, or with
    ``end`` the start of the next day. Raises :class:`UsageError`.
    """
    value = text.strip()
    ago = _AGO.fullmatch(value)
    try:
        if ago is not None:
            return _milliseconds(now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
        if value.lower() in _DAYS:
            return _milliseconds(_day(value.lower(), now, end))
        found = datetime.fromisoformat(value)
        if found.tzinfo is None:
            found = found.replace(tzinfo=now.tzinfo)
        whole_day = re.fullmatch(r"[\d-]+", value) is not None
        return _milliseconds(found + timedelta(days=1) if end and whole_day else found)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a time",
            hint="use 2026-11-01, 2026-11-01T09:30, 90min, 2h, 3d (ago), today, yesterday",
        ) from None


def _day(name: str, now: datetime, end: bool) -> datetime:
    back = _DAYS[name]
    if back is None:
        return now
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=back - 1 if end else back)


def _milliseconds(when: datetime) -> int:
    return int(when.timestamp() * 1000)


def moment(milliseconds: int) -> str:
    """Return a time as readable text in UTC, to the second."""
    try:
        return datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"


def clock_time(milliseconds: int) -> str:
    """Return the time of day in UTC, to the millisecond."""
    try:
        second = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"{milliseconds} ms"
    return f"{second}.{milliseconds % 1000:03}"
