"""One exchange on a screen: what came in, the steps it took as a tree over time, what came out."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from reenact.cli.divergence_text import divergence_lines
from reenact.cli.render import clip, count, escape_controls, preview
from reenact.search.moments import moment

__all__ = ["ExchangePrinter", "first_line", "milliseconds"]

_VALUE = 200
_SHOWN_CHANGES = 6
_DEEPEST = 12
_IN_FIRST_LINE = ("http.method", "http.path", "http.query", "http.status")
_MARKS = {"completed": " ", "failed": "!", "handled": "~"}


def milliseconds(duration: Any) -> str:
    """``12.3 ms``, ``4.56 s``."""
    if not isinstance(duration, (int, float)):
        return "-"
    return f"{duration:,.1f} ms" if duration < 10_000 else f"{duration / 1000:,.2f} s"


class ExchangePrinter:
    """Prints exchanges, in lines of at most ``width`` cells; 0 means as long as they are."""

    def __init__(self, width: int, out: TextIO | None = None) -> None:
        self._width = width
        self._out = out or sys.stdout

    def print(self, exchange: dict[str, Any], calls: Sequence[dict[str, Any]] = ()) -> None:
        """The whole of it."""
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
        yield f"  body of {body['clipped']:,} bytes, too large to be kept"
    elif body.get("type", "none") != "none":
        yield f"  {clip(escape_controls(body.get('text') or body.get('base64') or ''), _VALUE * 5)}"


def first_line(properties: dict[str, Any]) -> str:
    """The method and the target of an HTTP request, or the status of a response."""
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
