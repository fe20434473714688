"""Renderer of divergences as plain text, for terminals and test reports.

Requests and recorded values are untrusted: control characters are escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reenact.diff.terminal_text import around_difference, clip, escape_controls
from reenact.engine.divergence.model import Divergence, Gap, Nearest, Recorded, Seen, text_of_bytes
from reenact.engine.request import operation_of
from reenact.format.event import Event

__all__ = ["render_divergence", "render_divergences"]

_DATA_LINES = 6
_LISTED = 10
_NARROWEST = 40


def render_divergence(divergence: Divergence, *, width: int = 100) -> str:
    """The whole report, without a newline at its end. Lines are ``width`` cells or less."""
    width = max(_NARROWEST, width)
    lines = [_header(divergence), *_wrapped(escape_controls(divergence.detail), width)]
    sections = (
        ("asked", _seen(divergence.observed, width)),
        ("recorded", _seen(divergence.expected, width)),
        ("difference", _gaps(divergence, width)),
        ("served", _served(divergence)),
        ("nearest", _nearest_lines(divergence.nearest, width)),
        ("flags", (escape_controls(flag) for flag in divergence.flags)),
        ("stack", (escape_controls(line) for line in (divergence.stack or "").splitlines())),
        ("what to do", _hints(divergence.hint, width)),
    )
    for title, body in sections:
        shown = [clip(f"  {line}".rstrip(), width) for line in body]
        if shown:
            lines += ["", title, *shown]
    return "\n".join(lines)


def render_divergences(
    divergences: Sequence[Divergence], unused: Sequence[Event] = (), *, width: int = 100
) -> str:
    """A short list, for the end of a lenient run: what diverged, and what was not used.

    Empty when there is nothing to say. At most ten of each are listed, the rest is counted.
    """
    lines: list[str] = []
    if divergences:
        lines += [_count(len(divergences), "divergence")]
        lines += _listed(divergences, _short, width)
    if unused:
        lines += [f"{_count(len(unused), 'recorded event')} not used"]
        lines += _listed(unused, _short_event, width)
    return "\n".join(lines)


def _header(divergence: Divergence) -> str:
    place = f", event {divergence.event_seq}" if divergence.event_seq is not None else ""
    return f"divergence: {divergence.code}, lane {escape_controls(divergence.lane)}{place}"


def _seen(seen: Seen | None, width: int) -> Iterator[str]:
    if seen is None:
        return
    event = f"event {seen.seq}: " if isinstance(seen, Recorded) else ""
    name = f"{seen.type} {seen.operation}".rstrip()
    yield f"{event}{escape_controls(name)}, lane {escape_controls(seen.lane)}"
    if seen.request not in (None, {}):
        yield from _block(_value(seen.request), width - 2)
    if seen.digest is not None:
        yield f"(cut; the whole is {escape_controls(seen.digest)})"


def _block(text: str, width: int) -> list[str]:
    """Return ``text`` in a few lines, also if it has no spaces to break at."""
    lines = _wrap(text[: width * (_DATA_LINES + 1)], width)
    return lines if len(lines) <= _DATA_LINES else [*lines[:_DATA_LINES], "..."]


def _value(value: Any) -> str:
    """Return ``value`` as JSON in one line. Bytes that are text are shown as text."""
    text = text_of_bytes(value)
    if text is not None:
        size = f" (of {value['size']:,} bytes)" if isinstance(value.get("size"), int) else ""
        return escape_controls(f"bytes {json.dumps(text, ensure_ascii=False)}{size}")
    return escape_controls(json.dumps(value, ensure_ascii=False, sort_keys=True))


def _served(divergence: Divergence) -> Iterator[str]:
    if divergence.served is not None:
        yield f"the recorded result of event {divergence.served}"


def _gaps(divergence: Divergence, width: int) -> Iterator[str]:
    for gap in divergence.paths:
        yield from _gap(gap, width - 6)
    if divergence.more_paths:
        yield f"and {_count(divergence.more_paths, 'more place')}"


def _gap(gap: Gap, room: int) -> Iterator[str]:
    kind = "" if gap.kind == "changed" else f" ({gap.kind})"
    yield f"{escape_controls(gap.path)}{kind}"
    if gap.kind == "changed":
        recorded, asked = around_difference(_value(gap.expected), _value(gap.observed), room)
        yield f"  - {recorded}"
        yield f"  + {asked}"
    elif gap.kind == "removed":
        yield f"  - {clip(_value(gap.expected), room)}"
    else:
        yield f"  + {clip(_value(gap.observed), room)}"


def _nearest_lines(found: Iterable[Nearest], width: int) -> Iterator[str]:
    for one in found:
        used = "used" if one.used else "not used yet"
        alike = "the same" if one.score == 1 else f"{int(one.score * 100)}% alike"
        yield f"event {one.seq}: {escape_controls(one.operation)}, lane {escape_controls(one.lane)}, {alike}, {used}"
        if one.paths:
            yield clip(f"  differs at {', '.join(map(escape_controls, one.paths))}", width - 2)


def _hints(hint: str, width: int) -> Iterator[str]:
    for line in filter(None, hint.split("\n")):
        first, *rest = _wrapped(escape_controls(line), width - 4) or [""]
        yield f"- {first}"
        yield from (f"  {more}" for more in rest)


def _wrapped(text: str, width: int) -> list[str]:
    return _wrap(text, width, break_long_words=False)


def _listed(items: Sequence[Any], line: Any, width: int) -> Iterator[str]:
    for item in items[:_LISTED]:
        yield clip(f"  {line(item)}", width)
    if len(items) > _LISTED:
        yield f"  and {len(items) - _LISTED:,} more"


def _short(divergence: Divergence) -> str:
    place = "" if divergence.event_seq is None else f"event {divergence.event_seq}, "
    code: str = divergence.code
    if divergence.served is not None:
        code = f"{code}, served event {divergence.served}"
    return f"{place}lane {escape_controls(divergence.lane)}: {code}: {escape_controls(divergence.detail)}"


def _short_event(event: Event) -> str:
    name = f"{event.type} {operation_of(event.type, event.data)}".rstrip()
    return f"event {event.seq}, lane {escape_controls(event.lane)}: {escape_controls(name)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _wrap(text: str, width: int, *, break_long_words: bool = True) -> list[str]:
    # Loading it takes a while, and most runs do not diverge.
    from textwrap import wrap

    return wrap(text, width, break_long_words=break_long_words, break_on_hyphens=False)
