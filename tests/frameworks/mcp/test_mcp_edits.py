"""A program that was changed after it was recorded: what still replays, and what is said if not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.frameworks.mcp.conftest import make_stage
from tests.frameworks.mcp.staging import ENVIRONMENTS, Stage
from tests.integration.running import Ran

pytestmark = pytest.mark.slow

Recorded = tuple[Stage, Ran]

_LAST = '        print(text_of(await session.call_tool("add", {"a": 3, "b": 4})))\n'

_REFACTORED = """
import asyncio
import sys

from mcp import ClientSession, StdioServerParameters, stdio_client


class Sums:
    def __init__(self, session):
        self.session = session

    async def ask(self, tool, **arguments):
        result = await self.session.call_tool(tool, arguments)
        return result.content[0].text


async def main():
    import os

    environ = {"JOURNAL": os.environ["JOURNAL"]}
    server = StdioServerParameters(command=sys.executable, args=["server.py"], env=environ)
    async with stdio_client(server) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            sums = Sums(session)
            for tool, arguments in [("add", {"b": 2, "a": 1}), ("count", {}), ("add", {"a": 3, "b": 4})]:
                print(await sums.ask(tool, **arguments))


asyncio.run(main())
"""


@pytest.fixture(scope="module")
def make_recorded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Recorded]:
    """Each is made once, in whatever order the tests of this module come."""

    @cache
    def make(major: str) -> Recorded:
        stage = make_stage(major, tmp_path_factory.mktemp("recorded"))
        ran = stage.record("sums")
        assert ran.code == 0, ran.err
        return stage, ran

    return make


@pytest.fixture(params=sorted(ENVIRONMENTS))
def recorded(request: pytest.FixtureRequest, make_recorded: Callable[[str], Recorded]) -> Recorded:
    """The program ``sums``, recorded once for each major."""
    return make_recorded(request.param)


@pytest.fixture
def edited(recorded: Recorded, tmp_path: Path) -> Recorded:
    """A copy of it, to be edited."""
    stage, ran = recorded
    for name in ("c", "journal"):
        place = stage.folder / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / name)
    return Stage(stage.python, stage.major, tmp_path), ran


def test_the_same_calls_from_other_code(edited: Recorded) -> None:
    stage, recorded = edited
    stage.write("sums", _REFACTORED)
    assert stage.replay("sums").own == recorded.own


def test_a_changed_argument(edited: Recorded) -> None:
    stage, _ = edited
    stage.edit("sums", ('"b": 4', '"b": 5'))
    replayed = stage.replay("sums")
    assert replayed.code == 1
    assert "divergence: event_payload_mismatch" in replayed.err
    assert "$.args.b\n    - 4\n    + 5\n" in replayed.err


def test_one_call_more(edited: Recorded) -> None:
    stage, _ = edited
    stage.edit("sums", (_LAST, _LAST + _LAST))
    replayed = stage.replay("sums")
    assert replayed.code == 1
    assert "divergence: event_unexpected" in replayed.err


def test_one_call_less(edited: Recorded) -> None:
    stage, _ = edited
    stage.edit("sums", (_LAST, ""))
    replayed = stage.replay("sums")
    assert replayed.code == 1
    assert "divergence: event_missing" in replayed.err


def test_another_command_line(edited: Recorded) -> None:
    stage, _ = edited
    stage.edit("client", ('args=["server.py"]', 'args=["-u", "server.py"]'))
    replayed = stage.replay("sums")
    assert replayed.code == 1
    assert "$.request.argv" in replayed.err


def test_another_name_in_the_environment(edited: Recorded) -> None:
    stage, _ = edited
    stage.edit("client", ("env={**kept,", 'env={"MORE": "x", **kept,'))
    replayed = stage.replay("sums")
    assert replayed.code == 1
    assert "$.request.env" in replayed.err
