"""A function with a boundary around it while nothing is recorded, against the bare function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import reenact
from bench.answers import serving
from bench.measure import Row, Setting, at_most, cpu, fact, interleave, ratio

TITLE = "a boundary without a session"

_BODY = b'{"model": "small-1", "messages": [{"role": "user", "content": "Is it warm in Bern?"}]}'
_ANSWER = '{"choices": [{"message": {"role": "assistant", "content": "Yes."}}]}'


def run(setting: Setting) -> Iterator[Row]:
    with serving(setting.folder, {"/chat": ([], _ANSWER)}) as address:
        host = urlsplit(address)
        with closing(HTTPConnection(host.hostname or "", host.port)) as connection:

            def post(number: int) -> None:
                connection.request("POST", "/chat", body=_BODY)
                answer = connection.getresponse()
                if answer.status != 200 or not answer.read():
                    raise AssertionError("no answer")

            yield _ratio(setting, "a request over loopback", post, 400)
    yield _ratio(setting, "a function of 10 µs", _of_ten_microseconds(), 40_000)
    yield _of_nothing(setting)


def _ratio(setting: Setting, label: str, work: Callable[[int], object], count: int) -> Row:
    """Many short rounds: the difference is smaller than what a machine does by itself."""
    items = range(setting.scaled(count) // 4)
    wrapped = reenact.boundary(work)
    times = interleave(
        {"bare": lambda: cpu(work, items), "wrapped": lambda: cpu(wrapped, items)},
        setting.rounds * 5,
    )
    name = f"boundary without a session, {label}: / without the boundary"
    return ratio(name, times["wrapped"], times["bare"], at_most(1.05))


def _of_ten_microseconds() -> Callable[[int], object]:
    hundred = range(100)
    seconds = cpu(lambda _: sum(hundred), range(10_000)) / 10_000
    numbers = range(round(100 * 10e-6 / seconds))

    def add(number: int) -> int:
        return sum(numbers)

    return add


def _of_nothing(setting: Setting) -> Row:
    def nothing(number: int) -> None:
        pass

    wrapped = reenact.boundary(nothing)
    items = range(setting.scaled(400_000))
    times = interleave(
        {"bare": lambda: cpu(nothing, items), "wrapped": lambda: cpu(wrapped, items)},
        setting.rounds,
    )
    pairs = zip(times["wrapped"], times["bare"], strict=True)
    added = [(more - less) * 1e9 / len(items) for more, less in pairs]
    return fact("boundary without a session: added to a call", added, "ns", clock="cpu")
