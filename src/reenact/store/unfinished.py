"""What a kill left in a journal, as events that say how far each call had come."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from reenact.errors import ReenactError
from reenact.format.canonical import canonical, decode, digest_bytes, plain
from reenact.format.event import Data, Draft, Prefix
from reenact.format.manifest import Seed
from reenact.format.schedule import LONGEST_RUN, SCHEDULE, chunk_run, read_run
from reenact.policy.redaction import Redactor
from reenact.store.blobs import Blobs
from reenact.store.journal import journal_path
from reenact.store.layout import BLOBS
from reenact.store.lines import Lines
from reenact.store.log import whole_lines
from reenact.store.redact import prepare
from reenact.store.torn import set_tail_aside

__all__ = ["add_unfinished", "settle"]


class _Call(msgspec.Struct):
    """A call of the journal: what was known at its start, and what each piece added to it."""

    type: str
    lane: str
    position: int
    ts: int
    data: list[Data]
    pieces: list[int]
    """Where in the journal the pieces are."""
    parent: int | None = None
    """The seq of the event that opened it, if it has one."""
    completed: int = 0
    """The seq of the event that was to complete it."""


class _Told(msgspec.Struct):
    """What the log says already."""

    events: int = 0
    ts: int = 0
    pieces: dict[tuple[str, int], int] = {}
    """How many pieces of the stream at this lane and position were delivered."""
    calls: set[tuple[str, int]] = set()
    """Unfinished calls that have been added before."""


def add_unfinished(log: Path, lines: Lines, prefix: Prefix, redactor: Redactor) -> int:
    """Append to ``log`` what its journal knows and it does not, and remove the journal.

    ``lines`` reads the log, which ends with a whole line; nobody writes to it. Returns how many
    calls were found. Can be repeated: what has been appended is not appended again.
    """
    journal = journal_path(log)
    journal.with_name(f"{journal.name}.tmp").unlink(missing_ok=True)
    if not journal.exists():
        return 0
    told = _read_log(lines)
    calls = [call for call in _read(journal) if not _is_known(call, told)]
    with log.open("ab") as file:
        for seq, draft in enumerate((*_deliveries(calls, told), *map(_completing, calls)), 1):
            later = msgspec.structs.replace(draft, ts=max(draft.ts, told.ts))
            payload = prepare(draft, redactor).payload
            file.write(prefix.line(told.events + seq, later, payload))
        file.flush()
        os.fsync(file.fileno())
    journal.unlink()
    return len(calls)


def settle(log: Path, folder: Path, seed: Seed) -> int:
    """The same for a log in the capture directory ``folder``, whose writer is gone."""
    if not journal_path(log).exists():  # made first, and again by renaming
        return 0
    set_tail_aside(log, folder)
    lines = Lines(log, Blobs(folder / BLOBS))
    try:
        prefix = Prefix(seed.capture_id, seed.run_id)
        return add_unfinished(log, lines, prefix, Redactor(seed.redaction.profile))
    finally:
        lines.close()


def _is_known(call: _Call, told: _Told) -> bool:
    return 0 < call.completed <= told.events or (call.lane, call.position) in told.calls


def _read(journal: Path) -> list[_Call]:
    calls: dict[int, _Call] = {}
    for number, line in enumerate(whole_lines(journal)):
        with contextlib.suppress(ReenactError, KeyError, TypeError, ValueError):
            _take(calls, plain(decode(line)), number)
    return list(calls.values())


def _take(calls: dict[int, _Call], line: Data, number: int) -> None:
    known = calls.get(line["id"])
    if known is None:
        place = (line["type"], line["lane"], line["position"])
        calls[line["id"]] = _Call(*place, line["ts"], [line["data"]], [], line.get("parent"))
    elif "seq" in line:
        known.completed = line["seq"]
    else:
        known.ts = line["ts"]
        known.data.append(line["data"])
        known.pieces.append(number)


def _joined(parts: list[Any]) -> Any:
    """Objects by their fields; lists, texts and bytes one behind the other; else the last."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, dict) for part in parts):
        names = dict.fromkeys(name for part in parts for name in part)
        return {name: _joined([part[name] for part in parts if name in part]) for name in names}
    if all(isinstance(part, list) for part in parts):
        return [item for part in parts for item in part]
    if all(isinstance(part, (str, bytes)) for part in parts):
        return _text(parts)
    return parts[-1]


def _text(parts: list[str | bytes]) -> str | bytes:
    """A piece that ends in the middle of a character is bytes, and so is the one behind it."""
    raw = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    if all(isinstance(part, bytes) for part in parts):
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _completing(call: _Call) -> Draft:
    data: Data = {**_joined(call.data), "position": call.position}
    response = data.get("response", data.get("result"))
    data |= {"unfinished": True} if response is None else {"ended": "unfinished"}
    if call.parent is None:
        data["valueHash"] = digest_bytes(canonical(response))
    return Draft(type=call.type, data=data, ts=call.ts, lane=call.lane, parent=call.parent)


def _read_log(lines: Lines) -> _Told:
    told = _Told()
    while (found := lines.envelope(told.events + 1)) is not None:
        told.events, told.ts = found.seq, found.ts
        stored = bytes(found.data)
        if b'"chunk:' in stored or b'"unfinished"' in stored:
            _hear(told, found.lane, lines.event(found).data)
    return told


def _hear(told: _Told, lane: str, data: Data) -> None:
    position = data.get("position")
    run = read_run(data.get("key"), data.get("count"))
    if run is not None and data.get("source") == SCHEDULE:
        told.pieces[lane, run[0]] = run[1] + run[2]
    elif type(position) is int and (data.get("unfinished") or data.get("ended") == "unfinished"):
        told.calls.add((lane, position))


def _deliveries(calls: list[_Call], told: _Told) -> Iterator[Draft]:
    """The deliveries that the log does not know of, in their order."""
    left = sorted(
        (line, index, number)
        for index, call in enumerate(calls)
        for number, line in enumerate(call.pieces)
        if number >= told.pieces.get((call.lane, call.position), 0)
    )
    for index, group in groupby(left, key=lambda one: one[1]):
        call, numbers = calls[index], [number for _, _, number in group]
        for start in range(0, len(numbers), LONGEST_RUN):
            run = numbers[start : start + LONGEST_RUN]
            data = chunk_run(call.position, run[0], len(run))
            yield Draft(type="nondeterministic", data=data, ts=call.ts, lane=call.lane)
