"""Many tasks: what a lane costs when there are many, and what recording costs when they wait.

Each task makes one call. The first rows have live halves that answer at once; the last ones ask a
server on loopback, fifty at a time, with the same function and no session on the other side.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import httpx

import reenact
from bench.answers import serving
from bench.measure import Row, Setting, at_most, fact, interleave, ratio

TITLE = "many lanes"

_SMALL = 1_000
_TOGETHER = 100
_CALLS = 50
_ANSWER = {"celsius": 21.0, "sky": "clear"}


@reenact.boundary
async def forecast(day: int) -> dict[str, Any]:
    return _ANSWER


def run(setting: Setting) -> Iterator[Row]:
    place = setting.folder / "capture"
    costs = [_cost_of_all(place, _SMALL) for _ in range(setting.rounds)]
    yield fact(f"recorded lane, of {_SMALL:,}", costs, "µs", clock="cpu")
    for count in (10_000,) if setting.quick else (10_000, 100_000):
        yield from _growth(setting, count)
    yield _at_once(setting, setting.scaled(10_000))
    yield from _waiting(setting)


def _growth(setting: Setting, count: int) -> Iterator[Row]:
    """A run of many lanes in as many parts as there are rounds, each beside a small run."""
    path = setting.folder / "large"
    for mode, word in (("record", "recorded"), ("replay", "replayed")):
        with reenact.session(capture=path, mode=mode, redaction="default", strict=True):
            costs, others = _parts(setting, count)
        name = f"{word} lane: of {count:,} / recorded, of {_SMALL:,}"
        yield ratio(name, costs, others, at_most(1.3) if mode == "record" else None)
    shutil.rmtree(path)


def _parts(setting: Setting, count: int) -> tuple[list[float], list[float]]:
    ends = [count * number // setting.rounds for number in range(setting.rounds + 1)]
    costs, others = [], []
    for first, last in pairwise(ends):
        costs.append(_cost(first, last, _TOGETHER))
        small = setting.folder / "small"
        others.append(median(_cost_of_all(small, _SMALL) for _ in range(3)))
    return costs, others


def _at_once(setting: Setting, count: int) -> Row:
    place = setting.folder / "capture"
    times = interleave(
        {
            "some": lambda: _cost_of_all(place, count),
            "all": lambda: _cost_of_all(place, count, together=count),
        },
        setting.rounds,
    )
    name = f"recorded lane, {count:,} tasks at once: / {_TOGETHER} at a time"
    return ratio(name, times["all"], times["some"])


def _cost_of_all(path: Path, count: int, *, together: int = _TOGETHER) -> float:
    with reenact.session(capture=path, mode="record", redaction="default", overwrite=True):
        return _cost(0, count, together)


def _cost(first: int, last: int, together: int) -> float:
    """CPU microseconds per task, in the session that is open."""

    async def main() -> None:
        for start in range(first, last, together):
            days = range(start, min(start + together, last))
            await asyncio.gather(*(forecast(day) for day in days))

    start = thread_time()
    asyncio.run(main())
    return (thread_time() - start) * 1e6 / (last - first)


def _waiting(setting: Setting) -> Iterator[Row]:
    """Calls that take their time: recording hands the answers over one by one."""
    with serving(setting.folder, {"/forecast": ([], "{}")}) as address:
        bare = _Asking(setting.folder, f"{address}/forecast", None)
        recorded = _Asking(setting.folder, f"{address}/forecast", "record")
        times = interleave({"bare": bare.wall, "recorded": recorded.wall}, setting.rounds)
        name = f"gather of {_CALLS} calls over loopback: recorded / bare"
        yield ratio(name, times["recorded"], times["bare"], at_most(1.5), clock="wall")
        times = interleave({"bare": bare.cpu, "recorded": recorded.cpu}, setting.rounds)
        yield ratio(f"{name}, work", times["recorded"], times["bare"], at_most(1.5))


class _Asking:
    """Fifty requests together, again and again, over connections that stay open."""

    def __init__(self, folder: Path, url: str, mode: str | None) -> None:
        self._folder = folder
        self._url = url
        self._mode = mode

    def wall(self) -> float:
        return asyncio.run(self._timed())[0]

    def cpu(self) -> float:
        return asyncio.run(self._timed())[1]

    async def _timed(self) -> tuple[float, float]:
        async with httpx.AsyncClient(trust_env=False) as client:
            await self._ask(client)  # opens the connections
            if self._mode is None:
                return await self._rounds(client)
            path = self._folder / "asked"
            with reenact.session(capture=path, mode=self._mode, overwrite=True):
                return await self._rounds(client)

    async def _rounds(self, client: httpx.AsyncClient) -> tuple[float, float]:
        start, worked = perf_counter(), thread_time()
        for _ in range(4):
            await self._ask(client)
        return perf_counter() - start, thread_time() - worked

    async def _ask(self, client: httpx.AsyncClient) -> None:
        @reenact.boundary
        async def ask(number: int) -> int:
            answer = await client.post(self._url, json={"number": number})
            return answer.status_code

        answers = await asyncio.gather(*map(ask, range(_CALLS)))
        if set(answers) != {200}:
            raise AssertionError("no answer")
