"""Text of exchanges, comparisons of two exchanges, and divergences of a replay."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Any, TextIO

import msgspec

from reenact.cli._output import clip, count, escape_controls, mark_words, preview
from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import UsageError
from reenact.exchange.comparison.calls import name_operation, request_in
from reenact.exchange.comparison.result import ANSWERS
from reenact.format.json_path import format_pointer, parse
from reenact.search.query import moment

__all__ = ["ComparisonPrinter", "ExchangePrinter", "divergence_lines", "first_line", "milliseconds"]

_VALUE, _SHORT_VALUE = 200, 120
_SHOWN_CHANGES = 6
_SHOWN_PATHS = 6
_SHOWN_DIVERGENCES = 20
_LISTED = 20
_MOST_WORDS = 20_000
_NARROWEST = 40
_DEEPEST = 12
_IN_FIRST_LINE = ("http.method", "http.path", "http.query", "http.status")
_MARKS = {"completed": " ", "failed": "!", "handled": "~"}
_SIGNS = {"add": "+", "remove": "-", "replace": "~"}
_STATES = {"changed": "~", "added": "+", "removed": "-"}


def milliseconds(duration: Any) -> str:
    """Return ``12.3 ms`` or ``4.56 s``."""
    if not isinstance(duration, (int, float)):
        return "-"
    return f"{duration:,.1f} ms" if duration < 10_000 else f"{duration / 1000:,.2f} s"


class ExchangePrinter:
    """Printer of exchanges, in lines of at most ``width`` cells; 0 means unlimited."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout

    def print(self, exchange: dict[str, Any], calls: Sequence[dict[str, Any]] = ()) -> None:
        """Print an exchange with its payload, steps, calls, divergences, result and replays."""
        for line in self._lines(exchange, calls):
            print(clip(line, self._width).rstrip(), file=self._out)

    def _lines(self, exchange: dict[str, Any], calls: Sequence[dict[str, Any]]) -> Iterator[str]:
        yield from _head(exchange)
        yield ""
        yield from _payload("start", exchange.get("start") or {})
        processors = exchange.get("processors") or []
        if processors:
            yield ""
            yield count(len(processors), "processor")
            yield from _tree(processors)
        if calls:
            yield ""
            yield count(len(calls), "call")
            yield from map(_call, calls)
        told = (exchange.get("replay") or {}).get("divergences") or []
        yield from divergence_lines(told, self._width)
        yield ""
        error = exchange.get("error")
        if error:
            yield f"error   {escape_controls(str(error.get('type')))}: {escape_controls(str(error.get('message', '')))}"
        if exchange.get("result"):
            yield from _payload("result", exchange["result"])
        for one in exchange.get("replays") or []:
            http = f" with HTTP {one['httpStatus']}" if one.get("httpStatus") else ""
            ended = f"{one['ending']}{http}" if one.get("ending") in ("failed", "refused") else ""
            words = (str(one.get("state")), str(one.get("verdict") or ""), ended)
            told = ", ".join(filter(None, words))
            yield f"replay  {escape_controls(str(one.get('replayId')))}  {escape_controls(told)}"


def _head(exchange: dict[str, Any]) -> Iterator[str]:
    status = exchange.get("status") or "completed"
    took = milliseconds(exchange.get("duration") or 0.0)
    http = ((exchange.get("result") or {}).get("properties") or {}).get("http.status")
    ended = f"{status} with HTTP {http}" if http else status
    yield f"{escape_controls(str(exchange.get('exchangeId')))}  {escape_controls(ended)} in {took}"
    place = "/".join(filter(None, (exchange.get("app"), exchange.get("environment"))))
    facts = (
        ("route", f"{exchange.get('routeId')}  {exchange.get('revision') or ''}"),
        ("where", f"{place}  {exchange.get('agentId') or ''}"),
        ("when", moment(exchange.get("startedAt") or 0)),
        ("trace", (exchange.get("trace") or {}).get("traceId", "")),
        ("correlation", exchange.get("correlationId") or ""),
        ("replay of", (exchange.get("replay") or {}).get("sourceExchangeId", "")),
        ("not replayable", exchange.get("notReplayable") or ""),
    )
    for name, value in facts:
        if value.strip():
            yield f"  {name:<14} {escape_controls(value.strip())}"


def _payload(name: str, payload: dict[str, Any]) -> Iterator[str]:
    properties = payload.get("properties") or {}
    yield f"{name:<7} {escape_controls(first_line(properties))}".rstrip()
    for header, value in payload.get("headers") or []:
        yield f"  {escape_controls(str(header))}: {escape_controls(str(value))}"
    for key, value in properties.items():
        if key not in _IN_FIRST_LINE:
            yield f"  {escape_controls(key)} = {preview(value, _VALUE)}"
    body = payload.get("body") or {}
    if body.get("clipped") is not None:
        yield f"  body of {body['clipped']:,} bytes, too large to be stored"
    elif body.get("type", "none") != "none":
        yield f"  {clip(escape_controls(body.get('text') or body.get('base64') or ''), _VALUE * 5)}"


def first_line(properties: dict[str, Any]) -> str:
    """Return method and target of an HTTP request, or the status of a response."""
    words = [str(properties[key]) for key in _IN_FIRST_LINE if properties.get(key)]
    if properties.get("http.query"):
        path = str(properties.get("http.path") or "")
        words = [str(properties.get("http.method") or ""), f"{path}?{properties['http.query']}"]
    return " ".join(filter(None, words))


def _tree(processors: Sequence[dict[str, Any]]) -> Iterator[str]:
    below: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    known = {one.get("seq") for one in processors}
    for one in sorted(processors, key=lambda one: one.get("seq", 0)):
        parent = one.get("parentSeq") or 0
        below[parent if parent in known and parent < one.get("seq", 0) else 0].append(one)
    waiting = [(one, 0) for one in reversed(below[0])]
    while waiting:
        one, depth = waiting.pop()
        yield from _processor(one, min(depth, _DEEPEST))
        waiting += [(child, depth + 1) for child in reversed(below[one.get("seq", 0)])]


def _processor(one: dict[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    mark = _MARKS.get(one.get("status") or "completed", "?")
    iteration = one.get("iteration")
    name = escape_controls(str(one.get("processorId"))) + (
        "" if iteration is None else f"[{iteration}]"
    )
    kind = "" if one.get("kind", "step") == "step" else f" ({escape_controls(one['kind'])})"
    branch = f" -> {escape_controls(one['branch'])}" if one.get("branch") else ""
    took = milliseconds(one.get("duration") or 0.0)
    yield f"{mark} {one.get('seq', 0):>4}  {indent}{name}{kind}{branch}  {took}"
    space = f"        {indent}  "
    if one.get("error"):
        error = one["error"]
        yield f"{space}{escape_controls(str(error.get('type')))}: {escape_controls(str(error.get('message', '')))}"
    changes = one.get("changes") or []
    for change in changes[:_SHOWN_CHANGES]:
        yield f"{space}{_change(change)}"
    if len(changes) > _SHOWN_CHANGES:
        yield f"{space}and {count(len(changes) - _SHOWN_CHANGES, 'more change')}"


def _change(change: dict[str, Any]) -> str:
    path = escape_controls(str(change.get("path")))
    if change.get("op") == "remove":
        return f"- {path}"
    sign = "+" if change.get("op") == "add" else "~"
    return f"{sign} {path} = {preview(change.get('after'), _VALUE)}"


def _call(call: dict[str, Any]) -> str:
    response, error = call.get("response"), call.get("error")
    status = response.get("status") if isinstance(response, dict) else None
    end = f" -> {status}" if status is not None else " failed" if error else ""
    owner = f"  by {call['processorSeq']}" if call.get("processorSeq") else ""
    return f"  {call.get('seq', 0):>4}  {escape_controls(str(call.get('operation')))}{escape_controls(end)}{owner}"


class ComparisonPrinter:
    """Printer of comparisons, in lines of at most ``width`` cells; 0 means unlimited."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout

    def print(self, found: dict[str, Any]) -> None:
        """Print the verdict and the differences. Equal steps and calls are only counted."""
        self._line(_verdict(found))
        if found.get("first"):
            self._line(f"  first   {escape_controls(found['first'])}")
        self._facts(found)
        for name in ("start", "result"):
            if found.get(name):
                self._line("")
                self._line(name)
                self._changes(found[name], "  ")
        self._things("processor", found.get("processors") or [])
        self._things("call", found.get("calls") or [])
        for line in divergence_lines(found.get("divergences") or [], self._width):
            self._line(line)

    def _line(self, text: str) -> None:
        print(clip(text, self._width).rstrip(), file=self._out)

    def _facts(self, found: dict[str, Any]) -> None:
        revision, took = (found.get(name) or {} for name in ("revision", "duration"))
        before, after = _status(found, "before"), _status(found, "after")
        if before != after or (found.get("ending") or {}).get("after") in ("failed", "refused"):
            self._line(f"  status  {escape_controls(before)} -> {escape_controls(after)}")
        if revision.get("before") != revision.get("after"):
            self._line(
                f"  route   {escape_controls(str(revision.get('before')))} -> {escape_controls(str(revision.get('after')))}"
            )
        self._line(
            f"  took    {milliseconds(took.get('before'))} -> {milliseconds(took.get('after'))}"
        )

    def _things(self, noun: str, things: list[dict[str, Any]]) -> None:
        same = sum(one.get("state") == "same" for one in things)
        others = [one for one in things if one.get("state") != "same"]
        if not things:
            return
        self._line("")
        self._line(f"{count(len(things), noun)}, {same:,} the same")
        for one in others[: _LISTED * 5]:
            name = one.get("path") or one.get("operation") or "?"
            self._line(
                f"  {_STATES.get(one.get('state', ''), '?')} {escape_controls(str(name))}{_remarks(one)}"
            )
            self._changes(one.get("changes") or [], "      ")
        if len(others) > _LISTED * 5:
            self._line(f"  and {count(len(others) - _LISTED * 5, f'more {noun}')}")

    def _changes(self, changes: list[dict[str, Any]], indent: str) -> None:
        for one in changes[:_LISTED]:
            for text in self._change(one):
                self._line(f"{indent}{text}")
        if len(changes) > _LISTED:
            self._line(f"{indent}and {count(len(changes) - _LISTED, 'more place')}")

    def _change(self, one: dict[str, Any]) -> Iterator[str]:
        noise = "  (noise)" if one.get("noise") else ""
        yield f"{_SIGNS.get(one.get('op', ''), '?')} {escape_controls(str(one.get('path') or '/'))}{noise}"
        before, after = one.get("before"), one.get("after")
        if isinstance(before, str) and isinstance(after, str) and _is_prose(before, after):
            yield f"    {mark_words(before, after, self._out)}"
            return
        if "before" in one:
            yield f"    - {preview(before, _VALUE)}"
        if "after" in one:
            yield f"    + {preview(after, _VALUE)}"


def _status(found: dict[str, Any], side: str) -> str:
    """Return the status of one of the two exchanges, with the HTTP status of its response."""
    status, http = (found.get(name) or {} for name in ("status", "httpStatus"))
    return f"{status.get(side)} {http.get(side) or ''}".rstrip()


def _is_prose(before: str, after: str) -> bool:
    """Return whether both texts have several words. Ids are easier to read one above the other."""
    return len(before) + len(after) < _MOST_WORDS and all(" " in text for text in (before, after))


def _remarks(one: dict[str, Any]) -> str:
    found = [
        *(["noise"] if one.get("noise") else []),
        *(["recorded answer"] if one.get("answer") == "recorded" else []),
        *(["refused"] if one.get("answer") == "refused" else []),
    ]
    return f"  ({', '.join(found)})" if found else ""


def _verdict(found: dict[str, Any]) -> str:
    counts = found.get("counts") or {}
    told = ", ".join(
        f"{number:,} {name}"
        for name, number in counts.items()
        if isinstance(number, int) and number
    )
    verdict = escape_controls(str(found.get("verdict")))
    return f"{verdict}: {told}" if told else verdict


class _Reported(msgspec.Struct, frozen=True):
    """Divergence of a replay. ``known`` is None if the document is invalid; ``answer`` is the call's result."""

    raw: dict[str, Any]
    known: Divergence | None
    answer: str


def _read(document: dict[str, Any]) -> _Reported:
    answer = next((text for name, text in ANSWERS.items() if name == document.get("answer")), "")
    try:
        return _Reported(document, Divergence.from_json(document), answer)
    except UsageError:
        return _Reported(document, None, answer)


def divergence_lines(divergences: Iterable[Any], width: int) -> Iterator[str]:
    """Return a few lines for each divergence; ``width`` 0 disables wrapping."""
    found = _distinct([_read(one) for one in divergences if isinstance(one, dict)])
    room = max(_NARROWEST, width - 2) if width else 0
    for one in found[:_SHOWN_DIVERGENCES]:
        yield ""
        if one.known is None:
            yield f"divergence  {preview(one.raw, _SHORT_VALUE)}"
            continue
        yield f"divergence  {escape_controls(one.known.code)}: {_operation(one.known)}"
        yield from (f"  {line}" for line in _about(one.known, one.answer, room))
    if len(found) > _SHOWN_DIVERGENCES:
        yield ""
        yield f"and {count(len(found) - _SHOWN_DIVERGENCES, 'more divergence')}"


def _distinct(found: list[_Reported]) -> list[_Reported]:
    """Drop the second report of a call that the replay waited for and that is therefore missing, too."""
    waited = {
        one.known.event_seq
        for one in found
        if one.known is not None and "stalled" in one.known.flags
    }
    return [one for one in found if one.known is None or not _is_left_over(one.known, waited)]


def _is_left_over(one: Divergence, waited: set[int | None]) -> bool:
    return one.code == "event_missing" and not one.flags and one.event_seq in waited


def _operation(one: Divergence) -> str:
    """Return the operation in the same form as in the list of calls."""
    seen = one.expected if one.code == "event_missing" else one.observed or one.expected
    if seen is None:
        return f"lane {escape_controls(one.lane)}"
    request = request_in(seen.request) if isinstance(seen.request, dict) else None
    return escape_controls(name_operation(seen.operation or seen.type, request))


def _about(one: Divergence, answer: str, width: int) -> Iterator[str]:
    shown = [gap for gap in one.paths if gap.path not in ("$.op", "$.source")]
    for gap in shown[:_SHOWN_PATHS]:
        yield from _wrapped(_place(gap), width)
    more = len(shown[_SHOWN_PATHS:]) + one.more_paths
    if shown and more:
        yield f"and {count(more, 'more place')}"
    if not shown:
        yield from _wrapped(escape_controls(one.detail), width)
    if answer:
        yield answer


def _place(gap: Gap) -> str:
    path, asked, recorded = _pointer(gap.path), gap.observed, gap.expected
    if gap.kind == "added":
        return f"{path} is {_value(asked)}, and is not in the recording"
    if gap.kind == "removed":
        return f"{path} is missing, recorded {_value(recorded)}"
    return f"{path} is {_value(asked)}, recorded {_value(recorded)}"


def _pointer(path: str) -> str:
    """Return a JSON pointer as in the list of calls; a clipped path is returned unchanged."""
    try:
        steps = parse(path)
    except UsageError:
        return clip(escape_controls(path), _SHORT_VALUE)
    inside = steps if steps[:1] == ("request",) else ("request", *steps)
    return clip(escape_controls(format_pointer(inside)), _SHORT_VALUE)


def _value(value: Any) -> str:
    return preview(value, _SHORT_VALUE)


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False) if width else [text]
