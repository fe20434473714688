"""Searching many recordings: making the index, asking it, and finding that nothing has changed.

Making it is held against reading every event once, asking it against ``grep`` over the same files,
and looking for changes against the stat calls that this takes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.measure import Row, Setting, at_most, fact, interleave, ratio, whole_cpu
from bench.traffic import chat_requests
from reenact import open_recording
from reenact.format.event import Draft
from reenact.search.query import read_terms
from reenact.search.search import Query, Result, search
from reenact.store.recording import start_recording

TITLE = "search: index, question, nothing new"

_FOLDERS = 10
_RARE = "call_1234"
"""In one event of each recording, or a few; the word in all of them is the role of a message."""


def run(setting: Setting) -> Iterator[Row]:
    yield from _many_events(setting, 20_000 if setting.quick else 100_000)
    yield from _many_recordings(setting, 250 if setting.quick else 1_000)


def _many_events(setting: Setting, count: int) -> Iterator[Row]:
    root = _project(setting.folder / "events")
    runs = root / ".reenact" / "runs"
    for number, bodies in enumerate(_batches(chat_requests(750, count), count // _FOLDERS)):
        _record(runs / f"r{number}", bodies)
    setting.say(f"made {_FOLDERS} captures of {count // _FOLDERS:,} events, no text twice")
    cases = {"index": lambda: _index(root), "read": lambda: _read(runs)}
    times = interleave(cases, 2)
    name = f"{count:,} events"
    yield ratio(f"index of {name}: / reading them once", times["index"], times["read"], at_most(40))
    yield fact("indexing", [count / one for one in times["index"]], "events/s", clock="cpu")
    size = (root / ".reenact" / "cache" / "search.sqlite3").stat().st_size
    log = sum(file.stat().st_size for file in runs.rglob("events.jsonl"))
    yield fact(f"index of {name}: / recordings", [size / log], "×", at_most(3), clock="bytes")
    yield from _questions(setting, root, runs, name)


def _questions(setting: Setting, root: Path, runs: Path, name: str) -> Iterator[Row]:
    found = _ask(root, _RARE).matches.total
    if not found:
        raise AssertionError("nothing was found")
    cases = {
        "here": lambda: _timed(lambda: _ask(root, _RARE)),
        "grep": lambda: _timed(lambda: _grep(runs)),
        "process": lambda: _timed(lambda: _command(root, "search", _RARE)),
        "start": lambda: _timed(lambda: _command(root, "capabilities")),
        "common": lambda: _timed(lambda: _ask(root, "user")),
    }
    times = interleave(cases, setting.rounds)
    rare = f"search for a rare word in {name}"
    yield fact(f"{rare}, in process", _ms(times["here"]), "ms", clock="wall")
    yield ratio(
        f"{rare}, in process: / grep", times["here"], times["grep"], at_most(1), clock="wall"
    )
    yield fact(f"{rare}, cold start", _ms(times["process"]), "ms", clock="wall")
    yield ratio(
        f"{rare}, cold start: / a command that does nothing",
        times["process"],
        times["start"],
        at_most(3),
        clock="wall",
    )
    yield fact(f"search for a word in all {name}", _ms(times["common"]), "ms", clock="wall")


def _many_recordings(setting: Setting, count: int) -> Iterator[Row]:
    root = _project(setting.folder / "recordings")
    runs = root / ".reenact" / "runs"
    for number in range(count):
        with start_recording(runs / f"r{number}", redaction="none", seal=False, durability="none"):
            pass
    _ask(root, _RARE)
    cases = {
        "ask": lambda: _timed(lambda: _ask(root, _RARE)),
        "stat": lambda: _timed(lambda: _stat(runs)),
    }
    times = interleave(cases, setting.rounds)
    name = f"nothing new in {count:,} recordings"
    yield fact(name, _ms(times["ask"]), "ms", clock="wall")
    yield ratio(
        f"{name}: / stat of every file", times["ask"], times["stat"], at_most(5), clock="wall"
    )


def _project(root: Path) -> Path:
    (root / ".reenact" / "runs").mkdir(parents=True)
    return root


def _record(path: Path, bodies: Iterable[dict[str, Any]]) -> None:
    recording = start_recording(path, redaction="none", seal=False, durability="none")
    for number, body in enumerate(bodies):
        data = {"name": "chat", "callId": f"call_{number}", "args": body}
        recording.sink.append(Draft(type="tool_call", data=data, ts=number))
    recording.finish()


def _batches(items: list[Any], size: int) -> Iterator[list[Any]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _index(root: Path) -> float:
    shutil.rmtree(root / ".reenact" / "cache", ignore_errors=True)
    return whole_cpu(lambda: _ask(root, _RARE))


def _ask(root: Path, word: str) -> Result:
    question = Query(terms=read_terms([word]), limit=50)
    return search(root, [root / ".reenact"], question, environ={}, notify=_unexpected)


def _unexpected(text: str) -> None:
    if not text.startswith("reading"):
        raise AssertionError(text)


def _read(runs: Path) -> float:
    def work() -> None:
        for folder in runs.iterdir():
            with open_recording(folder) as source:
                while (event := source.next()) is not None:
                    event.data  # noqa: B018 - that is the reading

    return whole_cpu(work)


def _grep(runs: Path) -> None:
    subprocess.run(["grep", "-ric", _RARE, str(runs)], stdout=subprocess.DEVNULL, check=True)


def _command(root: Path, *words: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "reenact", *words],
        cwd=root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )


def _stat(folder: Path) -> None:
    for here, _, files in os.walk(folder):
        for name in files:
            os.stat(os.path.join(here, name))


def _timed(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def _ms(times: list[float]) -> list[float]:
    return [one * 1000 for one in times]
