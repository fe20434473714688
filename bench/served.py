"""A call that is answered from the recording, against what is the least that can be done.

The least: find the recorded text of the answer in a dictionary, by the encoded request, and decode
it. The peer is vcrpy, which answers below httpx: what it adds to a call is measured against a
client whose transport answers by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson

import reenact
from bench.measure import Row, Setting, cpu, fact, interleave, ratio
from bench.peers import using_vcrpy, write_vcrpy
from bench.traffic import chat_requests

TITLE = "a served call"

_URL = "http://model.example/v1/chat/completions"
_HEADERS = {"content-type": "application/json"}
_ANSWER = {"id": "chatcmpl-1", "choices": [{"message": {"role": "assistant", "content": "Yes."}}]}

Bodies = list[dict[str, Any]]


def run(setting: Setting) -> Iterator[Row]:
    for label, size, count in (("200 B", 200, 10_000), ("1 KB", 1_000, 10_000)):
        bodies = _numbered(chat_requests(size, setting.scaled(count)))
        yield from _against_the_least(setting, label, bodies)
    for count, matching in ((100, ("order", "body")), (1_000, ("body",))):
        yield from _against_peer(setting, _numbered(chat_requests(1_000, count)), matching)


def _numbered(bodies: Bodies) -> Bodies:
    """No two alike, so that a peer cannot answer one with the recording of another."""
    return [{**body, "seed": number} for number, body in enumerate(bodies)]


def _against_the_least(setting: Setting, label: str, bodies: Bodies) -> Iterator[Row]:
    path = _recorded(setting.folder / f"least-{label[0]}", bodies)
    answers = {orjson.dumps(body): orjson.dumps(_ANSWER) for body in bodies}
    times = interleave(
        {
            "least": partial(cpu, lambda body: orjson.loads(answers[orjson.dumps(body)]), bodies),
            "served": partial(_replayed, path, bodies),
        },
        setting.rounds,
    )
    each = [seconds * 1e6 / len(bodies) for seconds in times["served"]]
    yield fact(f"served call, {label}", each, "µs", clock="cpu")
    name = f"served call, {label}: / look-up in a dict and decode"
    yield ratio(name, times["served"], times["least"])


def _recorded(path: Path, bodies: Bodies) -> Path:
    with reenact.session(capture=path, mode="record", redaction="default", seal=False) as session:
        for body in bodies:
            session.call("chat", body, lambda: _ANSWER, capability="net.fetch")
    return path


def _replayed(path: Path, bodies: Bodies) -> float:
    """CPU seconds for the calls; opening and closing are not counted."""

    def ask(body: dict[str, Any]) -> None:
        if session.call("chat", body, capability="net.fetch") != _ANSWER:
            raise AssertionError("another answer than the recorded one")

    with reenact.session(capture=path, strict=True) as session:
        return cpu(ask, bodies)


def _against_peer(setting: Setting, bodies: Bodies, matching: tuple[str, ...]) -> Iterator[Row]:
    many = len(bodies)
    path = _recorded(setting.folder / f"peer-{many}", bodies)
    cassette = setting.folder / f"peer-{many}.json"
    write_vcrpy(cassette, _URL, [_encoded(body) for body in bodies], json.dumps(_ANSWER))
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=_ANSWER))
    with httpx.Client(transport=transport) as bare, httpx.Client(trust_env=False) as client:
        peers = {match: partial(_vcrpy, client, cassette, bodies, match) for match in matching}
        times = interleave(
            {
                "bare": lambda: cpu(_asking(bare), bodies) / many,
                "ours": lambda: _replayed(path, bodies) / many,
                **peers,
            },
            setting.rounds,
        )
    for match in matching:
        added = [peer - bare for peer, bare in zip(times[match], times["bare"], strict=True)]
        name = f"served call, {many:,} recorded: vcrpy by {match}, beyond httpx / ours"
        yield ratio(name, added, times["ours"])


def _encoded(body: dict[str, Any]) -> str:
    return json.dumps(body)


def _asking(client: httpx.Client) -> Callable[[dict[str, Any]], None]:
    def ask(body: dict[str, Any]) -> None:
        answer = client.post(_URL, content=_encoded(body), headers=_HEADERS)
        if answer.json() != _ANSWER:
            raise AssertionError("another answer than the recorded one")

    return ask


def _vcrpy(client: httpx.Client, cassette: Path, bodies: Bodies, match: str) -> float:
    """CPU seconds per call. By ``order`` its own rules, which look at the address only.

    By ``body`` some calls do: it looks through its whole cassette for each.
    """
    asked = bodies[:: max(1, len(bodies) // 20)] if match == "body" else bodies
    with using_vcrpy(cassette, by_body=match == "body"):
        return cpu(_asking(client), asked) / len(asked)
