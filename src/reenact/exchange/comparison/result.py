"""Result of a comparison: values for the API, the verdict and a summary sentence.

An exchange *fails* if it raised an exception or its response has an HTTP status of 500 or more. It is
*refused* if the status is 400 to 499. Otherwise it *succeeds*.

    fixed       failed or refused before, succeeds now
    regressed   succeeded before and does not now, or refused before and fails now
    identical   no differences, apart from ids, times and durations
    equivalent  only noise differs, or only the edited start payload
    diverged    any other difference, including a call that was not recorded
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import msgspec

from reenact.diff.terminal_text import clip, escape_controls, preview
from reenact.exchange.comparison.calls import Answer
from reenact.exchange.comparison.differences import Changed, State
from reenact.exchange.model import Exchange, Verdict

__all__ = [
    "ANSWERS",
    "CAUSE",
    "LISTED",
    "CallChange",
    "Comparison",
    "Counts",
    "Difference",
    "Durations",
    "Ending",
    "HttpStatuses",
    "ProcessorChange",
    "Sides",
    "ending_of",
    "first_difference",
    "http_status_of",
    "outcome",
    "verdict_of",
]

LISTED: Final = 2_000
"""Maximum number of listed changes; all are counted."""


class _Value(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All fields are written, whether they have their default or not."""


class Sides(_Value, frozen=True):
    """Two texts."""

    before: str = ""
    after: str = ""


class HttpStatuses(_Value, frozen=True):
    """HTTP statuses of two responses; 0 where there is none."""

    before: int = 0
    after: int = 0


class Durations(_Value, frozen=True):
    """In milliseconds; None where there is none."""

    before: float | None = None
    after: float | None = None


class Counts(_Value, frozen=True):
    """Numbers of changed paths, added and removed processors and calls, and noise.

    Noise counts only as noise.
    """

    changed: int = 0
    added: int = 0
    removed: int = 0
    noise: int = 0


class ProcessorChange(_Value, frozen=True):
    """``before`` and ``after`` are the seqs of a processor. ``path`` names it with those around
    it."""

    processor_id: str
    path: str
    state: State
    iteration: int | None = None
    before: int | None = None
    after: int | None = None
    changes: tuple[Changed, ...] = ()
    duration: Durations = Durations()
    noise: bool = False
    """Only noise has changed here."""


class CallChange(_Value, frozen=True):
    """Comparison of a call.

    ``before`` and ``after`` are its seqs in both recordings; a refused call has none.
    ``answer`` is the result of a call that differs from the recording.
    """

    state: State
    operation: str
    type: str = ""
    lane: str = ""
    before: int | None = None
    after: int | None = None
    changes: tuple[Changed, ...] = ()
    answer: Answer = ""
    noise: bool = False


class Comparison(_Value, frozen=True):
    """Two exchanges side by side."""

    verdict: Verdict
    first: str = ""
    """The first difference that counts, in words; empty when there is none."""
    cause: str = ""
    """First difference without its values: equal for all exchanges that differ at the same path."""
    status: Sides = Sides()
    ending: Sides = Sides()
    """The ending of each exchange: ``completed``, ``refused`` (an HTTP status of 400 to 499) or ``failed``."""
    http_status: HttpStatuses = HttpStatuses()
    start: tuple[Changed, ...] = ()
    result: tuple[Changed, ...] = ()
    processors: tuple[ProcessorChange, ...] = ()
    calls: tuple[CallChange, ...] = ()
    divergences: tuple[dict[str, Any], ...] = ()
    """Divergences of the replay, each with the ``answer`` of its call."""
    revision: Sides = Sides()
    duration: Durations = Durations()
    counts: Counts = Counts()

    def differences(self) -> Iterator[tuple[tuple[str, ...], Changed | None]]:
        """Yield what counts, except for edits of the start payload, with the path of its section.

        An added or removed processor or call has no single difference.
        """
        yield from ((("result",), one) for one in self.result if not one.noise)
        for processor in self.processors:
            yield from _counting_in(("processors", processor.processor_id), processor)
        for call in self.calls:
            yield from _counting_in(("calls", call.operation), call)


def _counting_in(
    root: tuple[str, ...], thing: ProcessorChange | CallChange
) -> Iterator[tuple[tuple[str, ...], Changed | None]]:
    yield from ((root, one) for one in thing.changes if not one.noise)
    if thing.state in ("added", "removed") and not thing.noise:
        yield root, None


ANSWERS: Final[dict[Answer, str]] = {
    "recorded": "the recorded answer was given",
    "refused": "it was refused",
}
"""Descriptions of the results of calls that differ from the recording."""

Ending = Literal["completed", "refused", "failed"]
_SUCCEEDED, _REFUSED, _FAILED = range(3)
_ENDINGS: Final[tuple[Ending, ...]] = ("completed", "refused", "failed")
_VALUE: Final = 60
CAUSE: Final = 300
"""Letters of a cause, at most."""
_INDEX: Final = re.compile(r"/\d+(?=/|$)")


class Difference(msgspec.Struct, frozen=True):
    """First difference that counts.

    ``words`` include its values; ``cause`` only identifies the path.
    """

    words: str
    cause: str


def outcome(exchange: Exchange) -> int:
    """0 when it succeeded, 1 when it was refused, 2 when it failed."""
    if exchange.status == "failed":
        return _FAILED
    status = http_status_of(exchange)
    if status < 400:
        return _SUCCEEDED
    return _REFUSED if status < 500 else _FAILED


def ending_of(exchange: Exchange) -> Ending:
    """Return how an exchange ended, in a word."""
    return _ENDINGS[outcome(exchange)]


def http_status_of(exchange: Exchange) -> int:
    """Return the HTTP status of the response, 0 for none."""
    properties = exchange.result.properties if exchange.result is not None else {}
    status = properties.get("http.status")
    return status if isinstance(status, int) and 100 <= status <= 999 else 0


def verdict_of(before: Exchange, after: Exchange, *, differs: bool, noise: bool) -> Verdict:
    """Return the verdict of a replay.

    ``differs`` is true if there are differences outside the start payload that are not noise, and
    ``noise`` if there are others.
    """
    was, now = outcome(before), outcome(after)
    if now == _SUCCEEDED < was:
        return "fixed"
    if now > was:
        return "regressed"
    if differs or now != was:
        return "diverged"
    return "equivalent" if noise else "identical"


def first_difference(
    before: Exchange,
    after: Exchange,
    start: Iterable[Changed],
    result: Iterable[Changed],
    processors: Iterable[ProcessorChange],
    calls: Iterable[CallChange],
    divergences: Iterable[dict[str, Any]] = (),
) -> Difference:
    """Return the first difference in order of execution.

    Edits of the start payload come last, because they are intended.
    """
    found = (
        *_about_processors(processors),
        *_about_calls(calls),
        *_about_divergences(divergences),
        *_about_status(before, after),
        *(_about("the result", one) for one in result if not one.noise),
        *(_about("the start payload", one) for one in start if not one.noise),
    )
    return next(iter(found), Difference("", ""))


def _about_processors(processors: Iterable[ProcessorChange]) -> Iterator[Difference]:
    for one in processors:
        if one.noise or one.state == "same":
            continue
        name, kind = (
            f"processor {escape_controls(one.path)}",
            f"processor {escape_controls(one.processor_id)}",
        )
        if one.state == "changed":
            yield _about(name, _counting(one.changes), kind)
        else:
            how = (
                "ran, and did not before" if one.state == "added" else "did not run, and did before"
            )
            yield Difference(f"{name} {how}", clip(f"{kind} {how}", CAUSE))
        return


def _about_calls(calls: Iterable[CallChange]) -> Iterator[Difference]:
    for one in calls:
        if one.noise or one.state == "same":
            continue
        name = f"call {clip(escape_controls(one.operation), 2 * _VALUE)}"
        got = f"; {ANSWERS[one.answer]}" if one.answer else ""
        if one.state == "changed":
            yield _about(name, _counting(one.changes), more=got)
        else:
            added = one.state == "added"
            how = f"was made, and was not before{got}" if added else "was not made, and was before"
            yield Difference(f"{name} {how}", f"{name} {how}")
        return


def _counting(changes: Iterable[Changed]) -> Changed:
    return next(change for change in changes if not change.noise)


def _about_divergences(divergences: Iterable[dict[str, Any]]) -> Iterator[Difference]:
    """Yield divergences that no call contains."""
    for one in divergences:
        detail = one.get("detail")
        if not one.get("answer") and isinstance(detail, str):
            code = clip(escape_controls(str(one.get("code", ""))), _VALUE)
            yield Difference(
                clip(escape_controls(detail), 6 * _VALUE), f"divergence {code}".rstrip()
            )
            return


def _about_status(before: Exchange, after: Exchange) -> Iterator[Difference]:
    if before.status != after.status:
        error = f" with {after.error.type}" if after.error is not None else ""
        words = f"it {after.status}{escape_controls(error)}, and {before.status} before"
        yield Difference(words, clip(words, CAUSE))


def _about(name: str, change: Changed, kind: str = "", more: str = "") -> Difference:
    """``kind`` is what the cause calls it, where that is not its name."""
    place = clip(escape_controls(_INDEX.sub("/*", change.path)), 2 * _VALUE)
    how = {"add": "is new", "remove": "was removed"}.get(change.op, "differs")
    error = f": {escape_controls(str(change.after['type']))}" if _is_error(change.after) else ""
    cause = f"{clip(kind or name, 2 * _VALUE)}: {place} {how}{error}{more}"
    return Difference(f"{name}: {_words(change)}{more}", clip(cause, CAUSE))


def _words(change: Changed) -> str:
    path = clip(escape_controls(change.path), 2 * _VALUE)
    if change.op == "add":
        return f"{path} is new: {_value(change.after)}"
    if change.op == "remove":
        return f"{path} was removed: it was {_value(change.before)}"
    return f"{path} is {_value(change.after)}, and was {_value(change.before)}"


def _is_error(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"type", "message"}


def _value(value: Any) -> str:
    if _is_error(value):
        return clip(escape_controls(f"{value['type']}: {value['message']}"), 2 * _VALUE)
    if isinstance(value, (dict, list, tuple)):
        many = "fields" if isinstance(value, dict) else "items"
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)} {many}"
    if value is msgspec.UNSET:
        return "nothing"
    return preview(value, _VALUE)
