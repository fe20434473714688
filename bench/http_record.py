"""An HTTP call that is recorded, against the same call unrecorded, over loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from time import perf_counter, thread_time
from typing import Any

import httpx

import reenact
from bench.answers import PAUSE, Answer, serving
from bench.clients import ANSWER, HEADERS, ask, bodies
from bench.measure import Limit, Row, Setting, at_most, fact, interleave, ratio
from bench.peers import has_cassetter, using_cassetter, using_vcrpy

TITLE = "a recorded HTTP call"

_PIECES = [f"data: piece {number}\n\n" for number in range(20)]

Scope = Callable[[], AbstractContextManager[Any]]


def run(setting: Setting) -> Iterator[Row]:
    answers: dict[str, Answer] = {
        "/chat": ([list(pair) for pair in HEADERS.items()], ANSWER),
        "/stream": ([], _PIECES),
    }
    with serving(setting.folder, answers) as address, httpx.Client(trust_env=False) as client:
        yield from _calls(setting, client, f"{address}/chat")
        yield from _first_byte(setting, client, f"{address}/stream")


def _calls(setting: Setting, client: httpx.Client, url: str) -> Iterator[Row]:
    asked = bodies(setting.scaled(400))
    walls: dict[str, list[float]] = {}

    def case(name: str, scope: Scope) -> Callable[[], float]:
        def measure() -> float:
            with scope():
                worked, passed = thread_time(), perf_counter()
                ask(client, url, asked)
                walls.setdefault(name, []).append(perf_counter() - passed)
                return thread_time() - worked

        return measure

    scopes = _scopes(setting)
    # vcrpy looks through all that it has recorded so far, for each call.
    few = asked[:50]
    times = interleave({name: case(name, scope) for name, scope in scopes.items()}, setting.rounds)
    for name in ("tape", "capture"):
        row = f"HTTP record, {name}: / unrecorded"
        yield ratio(row, walls[name][1:], walls["bare"][1:], at_most(1.5), clock="wall")
        yield ratio(f"{row}, work of the client", times[name], times["bare"])
    if "cassetter" in scopes:
        yield ratio(
            "HTTP record, cassetter: / unrecorded, work of the client",
            times["cassetter"],
            times["bare"],
        )
    yield _vcrpy(setting, client, url, few)


def _scopes(setting: Setting) -> dict[str, Scope]:
    numbers = count()

    def ours(what: str, ending: str = "") -> Scope:
        return lambda: reenact.session(
            **{what: setting.folder / f"{what}-{next(numbers)}{ending}"},  # type: ignore[arg-type]
            mode="record",
            seal=False,
        )

    scopes: dict[str, Scope] = {
        "bare": nullcontext,
        "tape": ours("tape", ".tape"),
        "capture": ours("capture"),
    }
    if has_cassetter():
        scopes["cassetter"] = lambda: using_cassetter(
            setting.folder / f"cassetter-{next(numbers)}.yaml", record=True
        )
    else:
        setting.say("skipped: cassetter is not installed")
    return scopes


def _vcrpy(setting: Setting, client: httpx.Client, url: str, asked: Sequence[str]) -> Row:
    numbers = count()

    def bare() -> float:
        start = thread_time()
        ask(client, url, asked)
        return thread_time() - start

    def recorded() -> float:
        with using_vcrpy(setting.folder / f"vcrpy-{next(numbers)}.json", record=True):
            return bare()

    times = interleave({"bare": bare, "vcrpy": recorded}, setting.rounds)
    name = f"HTTP record, vcrpy, {len(asked)} calls: / unrecorded, work of the client"
    return ratio(name, times["vcrpy"], times["bare"])


def _first_byte(setting: Setting, client: httpx.Client, url: str) -> Iterator[Row]:
    """The server sends the first piece and waits before the others."""
    often = setting.scaled(40)
    numbers = count()

    def bare() -> float:
        return sum(_until_first(client, url) for _ in range(often)) / often

    def recorded() -> float:
        path = setting.folder / f"stream-{next(numbers)}"
        with reenact.session(capture=path, mode="record", seal=False):
            return bare()

    times = interleave({"bare": bare, "recorded": recorded}, setting.rounds)
    limit: Limit = at_most(1.5)
    name = "HTTP record, first byte of a stream: / unrecorded"
    yield ratio(name, times["recorded"], times["bare"], limit, clock="wall")
    added = [(a - b) * 1e3 for a, b in zip(times["recorded"], times["bare"], strict=True)]
    name = f"HTTP record, first byte of a stream that goes on {PAUSE * 1e3:.0f} ms later: added"
    yield fact(name, added, "ms", clock="wall")


def _until_first(client: httpx.Client, url: str) -> float:
    start = perf_counter()
    with client.stream("POST", url, content=b"{}", headers=HEADERS) as response:
        pieces = response.iter_raw()
        next(pieces)
        taken = perf_counter() - start
        for _ in pieces:
            pass
    return taken
