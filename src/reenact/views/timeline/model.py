"""Timeline model: calls as spans in lanes, extents within a time range, and nesting.

The terminal (:mod:`reenact.views.timeline.layout`), the HTML page of a run and the pages of the server draw the
same spans. Times are in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, Final, Literal, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from reenact.engine.call import CUT_OFF
from reenact.engine.decision.recorded_calls import text_or_empty
from reenact.format.event import Event
from reenact.views.recorded_calls import MARKS, RecordedCall, recorded_duration

__all__ = ["Extent", "Span", "State", "TimeRange", "nested", "read_spans", "span_of"]

State = Literal["done", "failed", "cut", "open"]
"""``cut``: cancelled, or left before its end. ``open``: nothing ever completed it."""

_Key = TypeVar("_Key", bound=Hashable)
_NARROWEST: Final = 0.004
_LABEL = 200
_FAILED = 400
"""First HTTP status that counts as a failure."""


class Span(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One call. ``start`` and ``end`` are milliseconds, as the events tell time."""

    seq: int
    closed: int | None
    lane: str
    kind: str
    label: str
    """Operation in a word or two: ``gpt-5``, ``GET /weather/bern``, ``search``."""
    start: int
    end: int
    state: State
    timed: bool = True
    """Is it known how long it took? Otherwise it is shown when it ended."""
    diverged: bool = False


class _Request(msgspec.Struct, gc=False):
    method: Any = ""
    url: Any = ""


class _Response(msgspec.Struct, rename="camel", gc=False):
    status: Any = None
    exit_code: Any = None
    error: Any = None


class _Brief(msgspec.Struct, gc=False):
    """Relevant fields of an event. Event data is untrusted, so every type is checked."""

    request: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()
    timing: Any = None
    error: Any = None
    ok: Any = None
    ended: Any = None
    cancelled: Any = None
    unfinished: Any = None
    type: Any = ""


class Extent(msgspec.Struct, frozen=True):
    """Position of a span in a time range, in fractions of the range."""

    offset: float
    length: float


class TimeRange(msgspec.Struct, frozen=True):
    """Period that a timeline shows."""

    start: float
    end: float

    def extent(self, start: float, end: float) -> Extent:
        """Return the position of a span, clamped to the range and wide enough to see."""
        whole = max(self.end - self.start, 0.001)
        offset = min(max((start - self.start) / whole, 0.0), 1.0)
        length = max(_NARROWEST, min((end - start) / whole, 1.0 - offset))
        return Extent(min(offset, 1.0 - _NARROWEST), length)


def nested(
    tops: Iterable[_Key], children: Callable[[_Key], Iterable[_Key]], *, deepest: int
) -> Iterator[tuple[int, _Key]]:
    """Yield each item once with its depth, parents before their children. Cycles are cut."""
    waiting = [(0, one) for one in reversed([*tops])]
    seen: set[_Key] = set()
    while waiting:
        depth, one = waiting.pop()
        if one not in seen:
            seen.add(one)
            yield depth, one
            waiting += [(min(depth + 1, deepest), below) for below in reversed([*children(one)])]


_brief = msgspec.json.Decoder(_Brief)
_request = msgspec.json.Decoder(_Request)
_response = msgspec.json.Decoder(_Response)


def read_spans(steps: Iterable[RecordedCall], diverged: Collection[int] = ()) -> list[Span]:
    """Return the calls among ``steps`` by start. ``diverged`` has the numbers of diverged events."""
    spans = [span_of(step, diverged) for step in steps if step.kind not in MARKS]
    return sorted(spans, key=lambda span: (span.start, span.seq))


def span_of(step: RecordedCall, diverged: Collection[int] = ()) -> Span:
    """Return ``step`` as a span, and release its decoded data."""
    opening, closing = step.opening, step.closing
    asked = _look(opening)
    answered = asked if closing is opening else _look(closing)
    last = step.ended
    single = closing is opening
    span = Span(
        seq=step.seq,
        closed=None if closing is None else closing.seq,
        lane=step.lane,
        kind=step.kind,
        label=_label(step, asked),
        start=last - recorded_duration(asked.timing) if single else min(opening.ts, last),
        end=last,
        timed=not single or _says_how_long(opening, asked),
        state="open" if closing is None else _state(answered),
        diverged=step.seq in diverged or (closing is not None and closing.seq in diverged),
    )
    step.let_go()
    return span


def _says_how_long(event: Event, asked: _Brief) -> bool:
    offsets = asked.timing.get("offsets") if isinstance(asked.timing, dict) else None
    return event.type == "state_mutation" or bool(offsets)


def _look(event: Event | None) -> _Brief:
    try:
        return _Brief() if event is None else _brief.decode(event.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Brief()


def _label(step: RecordedCall, asked: _Brief) -> str:
    if step.kind == "llm":
        return (step.name.rpartition("/")[2] or step.name)[:_LABEL]
    try:
        request = _request.decode(asked.request)
    except (msgspec.DecodeError, UnicodeDecodeError):
        request = _Request()
    if text_or_empty(request.url):
        return f"{text_or_empty(request.method)} {_path(text_or_empty(request.url)[: 4 * _LABEL])}"[
            :_LABEL
        ].strip()
    return (step.name or text_or_empty(asked.type) or step.kind)[:_LABEL]


def _path(url: str) -> str:
    """Return the decoded path of a URL."""
    try:
        found = urlsplit(url)
    except ValueError:
        return url
    return unquote(found.path) or found.netloc or url


def _state(answered: _Brief) -> State:
    if answered.cancelled is True or answered.unfinished is True:
        return "cut"
    failed = answered.error is not None or answered.ok is False or answered.ended == "failed"
    if failed or _refused(answered.response):
        return "failed"
    return "cut" if answered.ended in CUT_OFF else "done"


def _refused(raw: msgspec.Raw) -> bool:
    """Return whether the response reports a failure by its status or exit code."""
    try:
        response = _response.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    status, code = response.status, response.exit_code
    return (
        response.error is not None
        or (type(status) is int and status >= _FAILED)
        or (type(code) is int and code != 0)
    )
