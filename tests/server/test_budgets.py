"""Budgets: pages of long recordings, and how much one tenant can have viewed and compared."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, SupportsIndex

import httpx
import pytest

import reenact
from reenact.server.exchanges.ingest_parser import split_lines
from reenact.server.http.admission import Readers
from reenact.server.problems import Problem
from reenact.server.runtime import Limits
from tests.server.house import House, running
from tests.server.traffic.puppet import packed

BYTES = {"Content-Type": "application/octet-stream"}


def push_long(house: House, folder: Path, calls: int) -> tuple[httpx.Client, str]:
    with reenact.session(capture=folder / "run", mode="record") as session:
        for number in range(calls):
            session.call("search", {"query": f"number-{number}-"}, lambda: {"celsius": 21})
    client = house.client(house.key("replayer"))
    data = packed(folder / "run")
    answer = client.post("/api/v1/captures", content=data, headers=BYTES)
    assert answer.status_code == 201, answer.text
    return client, f"/recordings/{answer.json()['captureId']}/view"


def test_page_of_a_long_recording_is_bounded_and_leads_to_the_next(tmp_path: Path) -> None:
    with running(tmp_path / "data") as house:
        client, place = push_long(house, tmp_path, 2_100)
        first = client.get(place).text
        assert "2,000 of 2,100 steps; 0 before and 100 after them" in first
        assert "number-1999-" in first
        assert "number-2000-" not in first
        start = first.index(f'href="{place}?from=') + len('href="')
        following = client.get(first[start : first.index('"', start)]).text
        assert "100 of 2,100 steps; 2,000 before and 0 after them" in following
        assert "number-2000-" in following
        assert "number-1999-" not in following


def test_recording_with_too_many_events_is_not_viewed(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(viewed=10)) as house:
        client, place = push_long(house, tmp_path, 20)
        answer = client.get(place)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def _crowd() -> list[str]:
    readers, done = Readers(1, waiting=2), asyncio.Event()
    said: list[str] = []

    async def read(tenant: str, name: str) -> None:
        try:
            async with readers.turn(tenant):
                said.append(f"{name} reads")
                await done.wait()
        except Problem as problem:
            said.append(f"{name} {problem.status}")

    tasks = [asyncio.create_task(read("a", f"a{number}")) for number in range(4)]
    tasks.append(asyncio.create_task(read("b", "b0")))
    while len(said) < 3:
        await asyncio.sleep(0)
    early = sorted(said)
    tasks[1].cancel()
    done.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with readers.turn("a"):
        said.append("again")
    return [*early, *said[3:]]


def test_tenant_that_views_too_much_is_refused_and_others_are_not() -> None:
    assert asyncio.run(_crowd()) == ["a0 reads", "a3 429", "b0 reads", "a2 reads", "again"]


class Piece(bytes):
    """Bytes that note how many of them were searched for line ends."""

    searched = 0

    def split(self, sep: Any = None, maxsplit: SupportsIndex = -1) -> list[bytes]:
        Piece.searched += len(self)
        return super().split(sep, maxsplit)


def test_one_long_line_is_split_in_linear_time() -> None:
    """All that was held used to be searched again with every piece of 64 KiB."""
    Piece.searched = 0
    pieces = [Piece(b"a" * 1_000) for _ in range(200)]
    assert list(split_lines(pieces, 1 << 20)) == [b"a" * 200_000]
    assert Piece.searched == 200_000


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_they_are_cut(piece: int) -> None:
    text = b"one\n\ntwo\nthree\n\nlast"
    pieces = (text[at : at + piece] for at in range(0, len(text), piece))
    assert list(split_lines(pieces, 100)) == text.split(b"\n")


def test_line_that_is_too_long_is_refused_before_it_is_held() -> None:
    with pytest.raises(Problem, match="more than 10 bytes"):
        list(split_lines(iter([b"a" * 6, b"a" * 6, b"a" * 6]), 10))
