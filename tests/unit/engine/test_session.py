"""A session over memory: sinks that fail, schedules that are not exact, and the end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import Session
from reenact.engine.scheduling.loop_scheduler import MAX_TURNS
from reenact.format.manifest import Flag
from tests.unit.engine.stage import Stage


def _calls(count: int) -> Any:
    def body(session: Session) -> list[int]:
        return [session.call("f", {"n": number}, lambda: 7) for number in range(count)]

    return body


@pytest.mark.parametrize("room", [0, 1, 2, 3, 5])
def test_a_sink_that_fails_does_not_stop_the_program(room: int) -> None:
    stage = Stage(fail_after=room)
    with stage.recording() as session:
        assert _calls(4)(session) == [7] * 4
        assert list(session.stream("s", {}, lambda: iter([1, 2]))) == [1, 2]
        assert asyncio.run(session.aio.call("g", {}, _three, capability="net.fetch")) == 3
        session.record_nondeterministic("clock", "now", 1)
    assert len(stage.warnings) == 1
    assert f"after event {room}" in stage.warnings[0]
    assert session.manifest is not None
    assert session.manifest.status == "error"
    assert session.manifest.event_count == room


async def _three() -> int:
    return 3


def test_the_manifest_of_what_was_written_can_be_looked_at() -> None:
    stage = Stage()
    with stage.recording() as session:
        _calls(2)(session)
        assert session.manifest is None
    assert session.manifest is not None
    assert (session.manifest.status, session.manifest.event_count) == ("ok", 4)


# Schedules


async def _never_rests(session: Session) -> Any:
    """A task that is always ready: the loop does not come to rest while the call is delivered."""
    done = False

    async def spin() -> None:
        while not done:
            await asyncio.sleep(0)

    spinner = asyncio.create_task(spin())
    answer = await session.aio.call("f", {}, _three, capability="net.fetch")
    done = True
    await spinner
    return answer


def test_an_approximate_schedule_is_said_and_stands_in_the_manifest() -> None:
    stage = Stage()
    with stage.recording() as session:
        assert asyncio.run(_never_rests(session)) == 3
    assert f"{MAX_TURNS:,} turns" in session.approximate
    assert len([text for text in stage.warnings if "approximate" in text]) == 1
    assert session.manifest is not None
    assert Flag.APPROXIMATE in session.manifest.flags


def test_an_exact_schedule_is_not_flagged() -> None:
    stage = Stage()
    stage.record(_calls(1))
    assert Flag.APPROXIMATE not in stage.sink.finalize().flags


def test_it_is_said_once() -> None:
    stage = Stage()
    with stage.recording() as session:
        for _ in range(3):
            session.schedule_is_approximate("a loop that shows nothing")
    assert len(stage.warnings) == 1


@pytest.mark.parametrize("place", ["tape", "capture"])
def test_the_flag_is_in_real_recordings_and_stays_when_they_are_added_to(
    tmp_path: Path, place: str
) -> None:
    where: dict[str, Any] = {place: tmp_path / "recording", "root": tmp_path}
    said: list[str] = []

    def record(mode: str, count: int, *, approximate: bool = False) -> list[int]:
        with reenact.session(mode=mode, warn=said.append, **where) as session:
            _calls(count)(session)
            if approximate:
                session.schedule_is_approximate("a loop that shows nothing")
        assert session.manifest is not None
        return session.manifest.flags

    assert Flag.APPROXIMATE not in record("record", 1)
    assert Flag.APPROXIMATE not in record("record_missing", 1, approximate=True)  # nothing is new
    assert Flag.APPROXIMATE in record("record_missing", 2, approximate=True)
    assert Flag.APPROXIMATE in record("record_missing", 3)
    with reenact.session(mode="replay", into=tmp_path / "again", **where) as session:
        _calls(3)(session)
    assert session.manifest is not None
    assert Flag.APPROXIMATE in session.manifest.flags
    assert Flag.APPROXIMATE not in record("rewrite", 1)


# Warnings


def test_warnings_do_not_tell_secrets() -> None:
    stage = Stage()
    secret = "gh" + "p_" + "a1B2c3D4e5" * 4
    with stage.recording() as session:
        session.warn(f"something about {secret}")
        session.warn_once(f"something about {secret}")
        session.warn_once(f"something about {secret}")
    assert len(stage.warnings) == 2
    assert secret not in "".join(stage.warnings)
