"""HTTP clients while nothing is recorded here, against clients that nobody has touched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context
from itertools import count
from time import thread_time
from typing import Any

import aiohttp
import httpx
import requests

import reenact
from bench.answers import serving
from bench.clients import ANSWER, HEADERS
from bench.measure import Row, Setting, at_most, interleave, ratio

TITLE = "HTTP clients while nothing is recorded"

_FIRST = 30
"""Calls that do not count: the interpreter gets used to functions that were replaced just now."""

_BODY = b'{"model":"small-1","messages":[{"role":"user","content":"Is it warm in Bern?"}]}'

Scope = Callable[[], AbstractContextManager[Any]]
Calls = Callable[[str, int], float]


def run(setting: Setting) -> Iterator[Row]:
    often = setting.scaled(120)
    answers = {"/chat": ([list(pair) for pair in HEADERS.items()], ANSWER)}
    with serving(setting.folder, answers) as address:
        for name, calls in (("httpx", _httpx), ("requests", _requests), ("aiohttp", _aiohttp)):
            yield from _rows(setting, name, calls, f"{address}/chat", often)


def _rows(setting: Setting, name: str, calls: Calls, url: str, often: int) -> Iterator[Row]:
    """Many short rounds: the difference is smaller than what a machine does by itself. How much that
    is, a row of its own says: the same client twice, first and last in each round."""

    def case(scope: Scope) -> Callable[[], float]:
        def measure() -> float:
            with scope():
                return calls(url, often)

        return measure

    scopes = {
        "bare": nullcontext,
        "off": _off,
        "beside": _beside(setting, name),
        "bare again": nullcontext,
    }
    times = interleave({key: case(scope) for key, scope in scopes.items()}, setting.rounds * 6)
    # A machine that slows down during a round does so on both sides of what is measured.
    bare = [sum(both) / 2 for both in zip(times["bare"], times["bare again"], strict=True)]
    row = f"{name}, session with mode off: / without a session"
    yield ratio(row, times["off"], bare, at_most(1.05))
    row = f"{name}, another thread's session records: / without a session"
    yield ratio(row, times["beside"], bare, at_most(1.05))
    row = f"{name}, without a session: / once more without a session"
    yield ratio(row, times["bare"], times["bare again"])


def _off() -> AbstractContextManager[Any]:
    return reenact.session(mode="off")


def _beside(setting: Setting, name: str) -> Scope:
    """A session that is open somewhere else: the clients are patched, and nothing is recorded."""
    numbers = count()

    @contextmanager
    def scope() -> Iterator[None]:
        path = setting.folder / f"beside-{name}-{next(numbers)}"
        session = reenact.session(capture=path, mode="record", seal=False)
        elsewhere = Context()
        elsewhere.run(session.__enter__)
        try:
            yield
        finally:
            elsewhere.run(session.__exit__, None, None, None)

    return scope


def _httpx(url: str, often: int) -> float:
    with httpx.Client(trust_env=False) as client:
        for _ in range(_FIRST):
            client.post(url, content=_BODY, headers=HEADERS)
        start = thread_time()
        for _ in range(often):
            _check(client.post(url, content=_BODY, headers=HEADERS).content)
        return thread_time() - start


def _requests(url: str, often: int) -> float:
    with requests.Session() as client:
        client.trust_env = False
        for _ in range(_FIRST):
            client.post(url, data=_BODY, headers=HEADERS)
        start = thread_time()
        for _ in range(often):
            _check(client.post(url, data=_BODY, headers=HEADERS).content)
        return thread_time() - start


def _aiohttp(url: str, often: int) -> float:
    async def main() -> float:
        async with aiohttp.ClientSession() as client:
            for _ in range(_FIRST):
                async with client.post(url, data=_BODY, headers=HEADERS) as response:
                    await response.read()
            start = thread_time()
            for _ in range(often):
                async with client.post(url, data=_BODY, headers=HEADERS) as response:
                    _check(await response.read())
            return thread_time() - start

    return asyncio.run(main())


def _check(body: bytes) -> None:
    if body != ANSWER.encode():
        raise AssertionError("another answer")
