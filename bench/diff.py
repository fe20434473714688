"""Comparing two runs, against reading and parsing both logs once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time

from bench.measure import Limit, Row, Setting, at_most, fact, interleave, ratio
from bench.traffic import chat_requests
from reenact import Draft, Redactor, open_recording, start_recording
from reenact.views.compare import Change, Comparison

TITLE = "comparing two runs"

_CALLS = 10_000


def run(setting: Setting) -> Iterator[Row]:
    count = setting.scaled(_CALLS)
    runs = {
        name: setting.folder / name for name in ("one", "equal", "noise", "few", "many", "first")
    }
    words = chat_requests(500, min(count, 2_000))
    for name, path in runs.items():
        _make(path, count, words, date="Tue" if name == "noise" else "Mon", changed=_CHANGED[name])
    one = runs.pop("one")
    times = interleave(
        {
            "parse": lambda: _parse(one, runs["equal"]),
            "told": lambda: _compare(one, runs["first"], differing=1, until_first=True),
            **{name: _case(one, path, count, name) for name, path in runs.items()},
        },
        setting.rounds,
    )
    what = f"diff, {count:,} calls"
    for name, (told, limit) in _ROWS.items():
        yield ratio(f"{what}, {told}: / parsing both logs", times[name], times["parse"], limit)
    yield ratio(
        f"{what}, first one changed: first difference / whole",
        times["told"],
        times["first"],
        at_most(0.1),
    )
    speed = [2 * count / seconds for seconds in times["equal"]]
    yield fact(f"{what}, equal: speed", speed, "events/s", clock="cpu")


_CHANGED: dict[str, Callable[[int], bool]] = {
    "one": lambda _: False,
    "equal": lambda _: False,
    "noise": lambda _: False,
    "few": lambda number: number == 77,
    "many": lambda number: number % 50 == 0,
    "first": lambda number: number == 0,
}

_ROWS: dict[str, tuple[str, Limit | None]] = {
    "equal": ("equal", at_most(3)),
    "few": ("one changed", at_most(3)),
    "noise": ("other dates only", at_most(3)),
    "many": ("one in 50 changed", at_most(6)),
}


def _make(
    path: Path,
    count: int,
    words: list[dict[str, object]],
    *,
    date: str,
    changed: Callable[[int], bool],
) -> None:
    """Calls over HTTP as a boundary writes them."""
    recording = start_recording(path, redaction=Redactor("none"), durability="none", seal=False)
    for number in range(count):
        url = f"https://api.example/forecast?day={number}"
        asked = {"method": "POST", "url": url, "type": "json", "body": words[number % len(words)]}
        answer = json.dumps({"celsius": 19 if changed(number) else 21, "day": number})
        headers = [["date", date], ["content-type", "application/json"], ["server", "example"]]
        data = {
            "source": "network",
            "op": "POST",
            "key": f"sha256:{hashlib.sha256(url.encode()).hexdigest()}",
            "request": asked,
            "response": {"status": 200, "headers": headers, "body": answer},
            "timing": {"offsets": [number % 7]},
        }
        recording.sink.append(Draft(type="nondeterministic", data=data, ts=number, op="POST"))
    recording.finish()


def _parse(*paths: Path) -> float:
    start = process_time()
    for path in paths:
        with open_recording(path) as source:
            while event := source.next():
                event.data  # noqa: B018 - looking is what costs
    return process_time() - start


def _case(one: Path, other: Path, count: int, name: str) -> Callable[[], float]:
    differing = sum(map(_CHANGED[name], range(count)))
    return lambda: _compare(one, other, differing=differing)


class _Told(Exception):
    """The first difference is known."""


def _stop(change: Change) -> None:
    if not change.differences:
        raise AssertionError("a difference without a difference")
    raise _Told


def _compare(one: Path, other: Path, *, differing: int, until_first: bool = False) -> float:
    start = process_time()
    with open_recording(one) as first, open_recording(other) as second:
        comparison = Comparison(first, second, first=_stop if until_first else None)
        try:
            changes = [change for lane in comparison.lanes() for change in lane.changes]
        except _Told:
            return process_time() - start
        found = [change.differences for change in changes]
    if len(found) != differing or until_first:
        raise AssertionError(f"{len(found)} differences instead of {differing}")
    return process_time() - start
