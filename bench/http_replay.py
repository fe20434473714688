"""An HTTP call that is served, against the client's own canned transport and against peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from time import thread_time

import httpx
import httpx2

from bench.answers import serving
from bench.clients import (
    ANSWER,
    HEADERS,
    Recorded,
    ask,
    bodies,
    canned,
    canned_async,
    record,
    seconds,
)
from bench.measure import Limit, Row, Setting, at_least, at_most, fact, interleave, ratio
from bench.peers import has_cassetter, using_cassetter, using_vcrpy, write_vcrpy

TITLE = "a served HTTP call"

_URL = "http://model.example/v1/ask"
_MODEL = "http://model.example/v1/chat/completions"
_PLACES = ("tape", "capture")

Peer = Callable[..., AbstractContextManager[None]]


def run(setting: Setting) -> Iterator[Row]:
    asked = bodies(setting.scaled(10_000))
    yield from _against_canned(setting, asked)
    yield from _flat(setting, asked)
    yield from _tasks(setting, asked[:1_000])
    yield from _with_httpx2(setting, asked[:1_000])
    yield from _model_calls(setting, asked[:1_000])
    yield from _all_of_many(setting, asked)
    for count, by_vcrpy, by_cassetter in ((100, 6, 1.3), (1_000, 40, 2.5)):
        yield from _against_peers(
            setting, asked[:count], at_least(by_vcrpy), at_least(by_cassetter)
        )


def _against_canned(setting: Setting, asked: Sequence[str]) -> Iterator[Row]:
    for count in (100, 1_000):
        some = asked[:count]
        places = {place: _recorded(setting, place, some) for place in _PLACES}
        with canned() as client:
            times = interleave(
                {
                    "canned": partial(seconds, client, _URL, some),
                    **{place: recorded.replay for place, recorded in places.items()},
                },
                setting.rounds * (1_000 // count),
            )
        for place in _PLACES:
            name = f"HTTP replay, {place} of {count:,}: / httpx.MockTransport"
            yield ratio(name, times[place], times["canned"], at_most(1.5))


def _recorded(setting: Setting, place: str, asked: Sequence[str], url: str = _URL) -> Recorded:
    name = f"{place}-{len(asked)}-{'models' if url == _MODEL else 'plain'}"
    path = setting.folder / (f"{name}.tape" if place == "tape" else name)
    return Recorded(path, url, asked) if path.exists() else record(path, url, asked)


def _model_calls(setting: Setting, asked: Sequence[str]) -> Iterator[Row]:
    """The same requests where a lens sees what they mean."""
    plain, model = (_recorded(setting, "capture", asked, url) for url in (_URL, _MODEL))
    times = interleave({"plain": plain.replay, "model": model.replay}, setting.rounds)
    name = f"model call, capture of {len(asked):,}: / another call over HTTP"
    yield ratio(name, times["model"], times["plain"])


def _flat(setting: Setting, asked: Sequence[str]) -> Iterator[Row]:
    """All of a long recording beside a short one as often as takes the same time."""
    for place in _PLACES:
        short, long = _recorded(setting, place, asked[:100]), _recorded(setting, place, asked)
        times = interleave(
            {"short": partial(_mean, short.replay, len(asked) // 100), "long": long.replay},
            setting.rounds,
        )
        name = f"HTTP replay, {place}: {len(asked):,} recorded / 100 recorded"
        yield ratio(name, times["long"], times["short"], at_most(1.3))


def _mean(measure: Callable[[], float], often: int) -> float:
    return sum(measure() for _ in range(often)) / often


def _tasks(setting: Setting, asked: Sequence[str]) -> Iterator[Row]:
    recorded = _recorded(setting, "tape", asked)
    times = interleave(
        {"canned": partial(canned_async, _URL, asked), "served": recorded.replay_async},
        setting.rounds,
    )
    name = f"HTTP replay with httpx.AsyncClient, tape of {len(asked):,}: / httpx.MockTransport"
    yield ratio(name, times["served"], times["canned"], at_most(1.5))


def _with_httpx2(setting: Setting, asked: Sequence[str]) -> Iterator[Row]:
    """A client that does less itself, so that what we add is more beside it."""
    recorded = _recorded(setting, "tape", asked)
    with canned(httpx2) as client:
        times = interleave(
            {
                "canned": partial(seconds, client, _URL, asked),
                "served": partial(recorded.replay, httpx2),
                "canned, async": partial(canned_async, _URL, asked, httpx2),
                "served, async": partial(recorded.replay_async, httpx2),
            },
            setting.rounds,
        )
    for kind, name in (("", "Client"), (", async", "AsyncClient")):
        row = f"HTTP replay with httpx2.{name}, tape of {len(asked):,}: / httpx2.MockTransport"
        yield ratio(row, times[f"served{kind}"], times[f"canned{kind}"])


def _all_of_many(setting: Setting, asked: Sequence[str]) -> Iterator[Row]:
    recorded = {place: _recorded(setting, place, asked) for place in _PLACES}
    for place, one in recorded.items():
        times = interleave({"calls": one.replay, "open": one.open}, setting.rounds)
        called = [each * len(asked) for each in times["calls"]]
        yield fact(f"HTTP replay, {place}: {len(asked):,} calls", called, "s", clock="cpu")
        opened = [each * 1e3 for each in times["open"]]
        yield fact(f"HTTP replay, {place} of {len(asked):,}: opening", opened, "ms", clock="cpu")


def _against_peers(
    setting: Setting, asked: Sequence[str], vcrpy: Limit, cassetter: Limit
) -> Iterator[Row]:
    many = len(asked)
    ours = _recorded(setting, "capture", asked)
    cassette = setting.folder / f"vcrpy-{many}.json"
    write_vcrpy(cassette, _URL, asked, ANSWER)
    # It looks through its whole cassette for each call, so it gets some of them only.
    some = asked[:: max(1, many // 20)]
    times = interleave(
        {"ours": ours.replay, "vcrpy": partial(_peer, using_vcrpy, cassette, _URL, some)},
        setting.rounds,
    )
    name = f"HTTP replay, {many:,} recorded, by body: vcrpy / ours"
    yield ratio(name, times["vcrpy"], times["ours"], vcrpy)
    if not has_cassetter():
        setting.say("skipped: cassetter is not installed")
        return
    yield from _against_cassetter(setting, asked, ours, cassetter)


def _against_cassetter(
    setting: Setting, asked: Sequence[str], ours: Recorded, limit: Limit
) -> Iterator[Row]:
    many = len(asked)
    cassette = setting.folder / f"cassetter-{many}.yaml"
    answers = {"/chat": ([list(pair) for pair in HEADERS.items()], ANSWER)}
    with serving(setting.folder, answers) as address:
        url = f"{address}/chat"
        with using_cassetter(cassette, record=True), httpx.Client(trust_env=False) as client:
            ask(client, url, asked)
    times = interleave(
        {
            "ours": ours.replay,
            "theirs": partial(_peer, using_cassetter, cassette, url, asked),
            "ours, whole": ours.replay_whole,
            "theirs, whole": partial(_peer, using_cassetter, cassette, url, asked, whole=True),
        },
        setting.rounds,
    )
    name = f"HTTP replay, {many:,} recorded, by body: cassetter / ours"
    yield ratio(name, times["theirs"], times["ours"], limit)
    name = f"HTTP replay, {many:,} recorded, by body, opening included: cassetter / ours"
    yield ratio(name, times["theirs, whole"], times["ours, whole"])


def _peer(
    using: Peer, cassette: Path, url: str, asked: Sequence[str], *, whole: bool = False
) -> float:
    """CPU seconds of a call; opening the cassette is counted if ``whole``."""
    with httpx.Client(trust_env=False) as client:
        start = thread_time()
        with using(cassette):
            if not whole:
                start = thread_time()
            ask(client, url, asked)
            return (thread_time() - start) / len(asked)
