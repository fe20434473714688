"""The ``show`` command: events as a table, a timeline, JSON lines, or one event."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from reenact.cli._event_summary import summary
from reenact.cli._output import clip, escape_controls, json_line, offset, pretty, size
from reenact.cli._parser import Command, Parser, columns, json_flag, number, positive, recording
from reenact.cli._recordings import parent_line, recording_at
from reenact.errors import RecordingDamaged, UsageError, ValueRefused, did_you_mean
from reenact.format.canonical import decode
from reenact.format.event import TYPES, Event, unknown_fields
from reenact.store.files import MANIFEST
from reenact.store.reader import open_recording
from reenact.store.source import LogSource

__all__ = ["COMMANDS"]

_AHEAD = 200
_HEADINGS = ("seq", "time", "lane", "type", "size", "what")


def _arguments(parser: Parser) -> None:
    add = parser.add_argument
    recording(parser)
    add("seq", nargs="?", type=positive, metavar="SEQ", help="show this event completely")
    add("--type", action="append", metavar="TYPE", help="only events of this type (repeatable)")
    add("--lane", action="append", metavar="LANE", help="only events of this lane (repeatable)")
    add("--grep", metavar="TEXT", help="only events whose data contain this text")
    add("--from", dest="first", type=positive, metavar="SEQ", help="start at this event")
    add("--to", dest="last", type=positive, metavar="SEQ", help="end with this event")
    add("--limit", type=positive, metavar="N", help="maximum number of events")
    add("--follow", action="store_true", help="wait for more until the recording is finished")
    add("--timeline", action="store_true", help="draw lanes as rows and calls as bars over time")
    add(
        "--report",
        metavar="FILE",
        help="mark the divergences of a replay in the timeline, as run --report wrote them",
    )
    add("--width", type=number, metavar="N", help="width of the table, 0 for unlimited")
    json_flag("complete events as JSON, one per line; for a timeline one object")(parser)


def show(args: argparse.Namespace) -> int:
    path = recording_at(args.path)
    _check(args)
    if args.follow:
        return _follow(path, args)
    with open_recording(path) as source:
        if args.seq is not None:
            _show_one(source, args)
            return 0
        if line := parent_line(source.manifest()):
            print(f"reenact: {line}", file=sys.stderr)
        if args.timeline:
            from reenact.cli.inspect._timeline import timeline

            return timeline(path, source, args, partial(_wanted, args=args))
        last = min(len(source), args.last or len(source))
        events = map(source.at, range(args.first or 1, last + 1))
        start = source.at(1).ts if len(source) else 0
        shown = _print(islice(_wanted(events, args), args.limit), args, start, source)
        if not shown:
            _tell_none(len(source), args)
    return 0


def _tell_none(events: int, args: argparse.Namespace) -> None:
    if not events:
        print("the recording is empty", file=sys.stderr)
        return
    print(f"no event matches, of {events:,}", file=sys.stderr)
    for kind in args.type or ():
        if kind not in TYPES:
            print(
                f"hint: --type {escape_controls(kind)}: {did_you_mean(kind, TYPES)}",
                file=sys.stderr,
            )


def _check(args: argparse.Namespace) -> None:
    filters = ("type", "lane", "grep", "first", "last", "limit")
    if args.seq is not None and (args.follow or any(getattr(args, name) for name in filters)):
        raise UsageError(
            "SEQ shows one event; filters and --follow go with the table",
            hint=f"reenact show {args.path} {args.seq}",
        )
    if args.timeline and (args.follow or args.seq is not None):
        raise UsageError(
            "--timeline shows a complete recording, so it excludes SEQ and --follow",
            hint=f"reenact show {args.path} --timeline",
        )
    if args.report is not None and not args.timeline:
        raise UsageError(
            "--report marks divergences in a timeline", hint="add --timeline, or leave it out"
        )


def _show_one(source: LogSource, args: argparse.Namespace) -> None:
    try:
        event = source.at(args.seq)
    except LookupError:
        raise UsageError(
            f"event {args.seq} does not exist: {args.path} has {len(source):,}",
            hint=f"reenact show {args.path}",
        ) from None
    whole = _whole(event, source)
    print(json_line(whole) if args.json else pretty(whole))


def _follow(path: Path, args: argparse.Namespace) -> int:
    from reenact.store.reader import follow

    with closing(follow(path)) as events:
        head = next(events, None)
        found = chain(() if head is None else (head,), events)
        start = 0 if head is None else head.ts
        shown = _print(islice(_wanted(found, args), args.limit), args, start, None)
    if args.limit and shown == args.limit:
        return 0
    if path.is_dir() and not (path / MANIFEST).exists():
        print(
            f"{escape_controls(str(path))} is unfinished, and its writer has ended\n"
            f"hint: reenact recover {escape_controls(str(path))}",
            file=sys.stderr,
        )
    return 0


def _wanted(events: Iterable[Event], args: argparse.Namespace) -> Iterator[Event]:
    """Yield the events that pass all filters. The payload is checked last because it can be large."""
    types, lanes = set(args.type or ()), set(args.lane or ())
    sought = None if args.grep is None else _as_stored(args.grep)
    for event in events:
        if types and event.type not in types:
            continue
        if lanes and event.lane not in lanes:
            continue
        if not (args.first or 1) <= event.seq <= (args.last or event.seq):
            continue
        if sought is None or sought in event.payload:
            yield event


def _as_stored(text: str) -> bytes:
    """Return ``text`` as it appears inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def _print(
    events: Iterable[Event], args: argparse.Namespace, start: int, source: LogSource | None
) -> int:
    """Print events and return their number. ``start`` is the time stamp of the first event.

    Without a ``source`` the recording is still being written, and each event is printed immediately.
    """
    if args.json:
        lines = _json_lines(events, source)
    else:
        lines = _Table(args.width, start).lines(events, ahead=0 if source is None else _AHEAD)
    printed = 0
    for line in lines:
        print(line, flush=source is None)
        printed += 1
    return printed if args.json else max(0, printed - 1)


def _json_lines(events: Iterable[Event], source: LogSource | None) -> Iterator[str]:
    for event in events:
        yield json_line(_whole(event, source))


class _Table:
    """Table of events that prints while it reads. Column widths fit nearly every recording."""

    def __init__(self, width: int | None, start: int) -> None:
        self._width = columns() if width is None else width
        self._widths = [5, 9, 4, max(map(len, TYPES)), 9]
        self._start = start

    def lines(self, events: Iterable[Event], *, ahead: int) -> Iterator[str]:
        """Yield the lines of the table. ``ahead`` events are read before the first line."""
        rest = iter(events)
        known = list(islice(rest, ahead))
        self._widths[2] = max([self._widths[2], *(len(event.lane) for event in known)])
        for index, event in enumerate(chain(known, rest)):
            if not index:
                yield self._line(_HEADINGS)
            yield self._line(self._cells(event))

    def _cells(self, event: Event) -> tuple[str, ...]:
        payload = event.payload
        return (
            str(event.seq),
            offset(event.ts - self._start),
            event.lane,
            escape_controls(event.type),
            size(len(payload)),
            summary(event.type, _data(event, payload)),
        )

    def _line(self, cells: tuple[str, ...]) -> str:
        seq, time, lane, kind, amount, what = cells
        self._widths[2] = max(self._widths[2], len(lane))
        places = zip((seq, time, lane, kind, amount), self._widths, ">><<>", strict=True)
        front = "  ".join(f"{cell:{side}{width}}" for cell, width, side in places)
        return clip(f"{front}  {what}".rstrip(), self._width)


def _whole(event: Event, source: LogSource | None) -> dict[str, Any]:
    """Return the complete event, including unknown fields of later versions."""
    try:
        whole = event.to_json()
        extra = {} if source is None else unknown_fields(source.raw(event.seq))
    except ValueRefused as error:
        raise _unreadable(event, error.message) from None
    data = whole.pop("data")
    return {**whole, **extra, "data": data}


def _data(event: Event, payload: bytes) -> dict[str, Any]:
    try:
        data = decode(payload)
    except ValueRefused as error:
        raise _unreadable(event, error.message) from None
    if not isinstance(data, dict):
        raise _unreadable(event, "not an object")
    return data


def _unreadable(event: Event, reason: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"event {event.seq}: its data cannot be read: {reason}",
        place=f"event {event.seq}",
        hint="record it again; reenact verify names everything that is wrong",
    )


COMMANDS = {
    "show": Command(
        description="Shows the events of a recording as a table, as a timeline, or one event in full. "
        "Recorded data is not trusted: control characters appear as escapes.",
        example="reenact show runs/today --type tool_call --grep Bern",
        arguments=_arguments,
        run=show,
    ),
}
