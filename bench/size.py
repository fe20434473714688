"""The size of a long conversation on disk, against what was new in it; and a peer's.

The peer is vcrpy, recording the same requests through httpx from a server on loopback.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import vcr

import reenact
from bench.answers import serving
from bench.measure import Limit, Row, Setting, at_most, fact, whole_cpu
from bench.traffic import Turn, chat
from reenact import verify
from reenact.store.pack import pack

TITLE = "size of a long conversation"


def run(setting: Setting) -> Iterator[Row]:
    turns = list(chat(300))
    new = sum(turn.new_text for turn in turns)
    path = setting.folder / "chat"
    seconds = _record(path, turns)
    yield _size("size, 300 turns: on disk / new text", _bytes_in(path), new, at_most(2))
    packed = setting.folder / "chat.packed"
    pack(path, packed)
    yield _size("size, 300 turns, packed: / new text", packed.stat().st_size, new, at_most(0.8))
    yield fact("recording time, 300 turns", [seconds * 1000 / 300], "ms/turn", clock="cpu")
    shutil.rmtree(path)
    yield from _against_peer(setting, list(chat(50 if setting.quick else 100)))


def _against_peer(setting: Setting, turns: list[Turn]) -> Iterator[Row]:
    many = len(turns)
    new = sum(turn.new_text for turn in turns)
    path = setting.folder / "chat"
    ours = _record(path, turns)
    yield _size(f"size, {many} turns: on disk / new text", _bytes_in(path), new)
    answers = {f"/{turn.number}": (turn.response_headers, turn.answer) for turn in turns}
    with serving(setting.folder, answers) as address, httpx.Client(trust_env=False) as client:
        bare = whole_cpu(lambda: _call(client, address, turns))
        cassette = setting.folder / "cassette.yaml"
        taped = vcr.use_cassette(str(cassette))(_call)
        peer = whole_cpu(lambda: taped(client, address, turns)) - bare
    yield _size(f"size, {many} turns, vcrpy: on disk / new text", cassette.stat().st_size, new)
    yield _size(f"size, {many} turns: vcrpy / ours", cassette.stat().st_size, _bytes_in(path))
    yield fact(f"recording time, {many} turns: vcrpy / ours", [peer / ours], "×", clock="cpu")


def _size(name: str, size: int, against: int, limit: Limit | None = None) -> Row:
    return fact(name, [size / against], "×", limit, clock="bytes")


def _record(path: Path, turns: list[Turn]) -> float:
    """Record and close; CPU seconds, all threads."""

    def work() -> None:
        with (
            httpx.Client(transport=_Model(turns)) as client,
            reenact.session(capture=path, mode="record", redaction="default", seal=False),
        ):
            for turn in turns:
                client.post(turn.url, content=turn.body, headers=list(_pairs(turn.request_headers)))

    seconds = whole_cpu(work)
    verify(path)
    return seconds


class _Model(httpx.BaseTransport):
    """Answers turn after turn, without a network."""

    def __init__(self, turns: list[Turn]) -> None:
        self._turns = iter(turns)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        turn = next(self._turns)
        request.read()
        stream = httpx.ByteStream(turn.answer.encode())
        return httpx.Response(200, headers=list(_pairs(turn.response_headers)), stream=stream)


def _pairs(headers: list[list[str]]) -> Iterator[tuple[str, str]]:
    return ((key, value) for key, value in headers)


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _call(client: httpx.Client, address: str, turns: list[Turn]) -> None:
    for turn in turns:
        headers = [(name, value) for name, value in turn.request_headers if name != "host"]
        answer = client.post(f"{address}/{turn.number}", content=turn.body, headers=headers)
        if answer.text != turn.answer:
            raise AssertionError("the server gave another answer")
