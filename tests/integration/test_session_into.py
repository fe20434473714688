"""Recording a replay: the same content, under another id, with its parent."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import DivergenceError, RecordingExists
from tests.integration.sessions import Studio


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


def _program(studio: Studio) -> Any:
    """A bit of everything, in several lanes."""
    session = reenact.current()
    assert session is not None
    session.record_event("run_start", {"input": "q"})

    def slow() -> Any:
        return [studio.get("inside"), studio.get("inside, too")]

    async def tasks() -> Any:
        async def words() -> list[str]:
            return [word async for word in studio.awords(3)]

        await asyncio.sleep(0.001)
        return await asyncio.gather(studio.aget(1), words(), asyncio.to_thread(studio.get, 2))

    thread_made: list[Any] = []
    thread = threading.Thread(target=lambda: thread_made.append(studio.get("thread")))
    thread.start()
    thread.join()
    stream: Any = studio.words(4)
    seen = [next(stream), studio.get("between"), next(stream)]
    stream.close()
    made = [thread_made, session.call("slow", {}, slow), asyncio.run(tasks()), seen]
    with pytest.raises(ZeroDivisionError):
        session.call("fails", {}, lambda: 1 // 0)
    session.record_nondeterministic("clock", "now", 5)
    session.record_event("run_end", {"status": "ok"})
    return made


@pytest.mark.parametrize("new", ["capture", "tape.jsonl"])
@pytest.mark.parametrize("old", ["capture", "tape"])
def test_a_recorded_replay_has_the_content_of_its_parent(
    studio: Studio, old: str, new: str
) -> None:
    parent: dict[str, Any] = {old: studio.root / "parent"}
    into = studio.root / f"new-{new}"
    made = studio.record(lambda: _program(studio), **parent)
    assert studio.replay(lambda: _program(studio), into=into, **parent) == made

    before, after = studio.manifest(studio.root / "parent"), studio.manifest(into)
    assert (after.mode, after.status) == ("replay", "ok")
    assert after.parent is not None
    assert (after.parent.capture_id, after.parent.seq) == (before.capture_id, before.event_count)
    assert after.capture_id != before.capture_id
    assert after.integrity.content_hash == before.integrity.content_hash
    assert after.event_count == before.event_count
    reenact.verify(into)


def test_a_recorded_replay_can_be_replayed(studio: Studio) -> None:
    made = studio.record(lambda: _program(studio))
    into = studio.root / "again.jsonl"
    studio.replay(lambda: _program(studio), into=into)
    assert studio.replay(lambda: _program(studio), tape=into) == made


def test_it_refuses_what_exists_before_the_body_runs(studio: Studio) -> None:
    studio.record(lambda: studio.get(1))
    studio.record(lambda: studio.get(1), "there")
    before = studio.everything()
    with pytest.raises(RecordingExists):
        studio.replay(lambda: pytest.fail("it does not open"), into=studio.path("there"))
    assert studio.everything() == before


def test_calls_that_were_not_made_are_not_in_it(studio: Studio) -> None:
    studio.record(lambda: [studio.get(1), list(studio.words(2)), studio.get(2)])
    into = studio.root / "new"
    with studio.session(mode="replay", strict=False, into=into) as session:
        studio.get(2)
    assert [event.data["request"] for event in studio.events(into)] == [{"x": 2}]
    assert session.report().status == "diverged"
    with reenact.open_recording(into) as source:
        assert len(source) == 1  # no delivery of a stream that nobody read


def test_a_strict_divergence_is_in_its_manifest(studio: Studio) -> None:
    studio.record(lambda: [studio.get(1), studio.get(2)])
    into = studio.root / "new"
    with pytest.raises(DivergenceError):
        studio.replay(lambda: studio.get(1), into=into)
    manifest = studio.manifest(into)
    assert (manifest.status, manifest.error) == ("error", "DivergenceError")


def test_a_sealed_answer_is_sealed_again(studio: Studio) -> None:
    secret = "gh" + "p_" + "a1B2c3D4e5" * 4
    session_arguments: dict[str, Any] = {"capture": studio.root / "old"}

    def body() -> Any:
        session = reenact.current()
        assert session is not None
        return session.call("login", {}, lambda: {"token": secret}, capability="net.fetch")

    studio.record(body, **session_arguments)
    assert studio.replay(body, into=studio.root / "new", **session_arguments) == {"token": secret}
    assert studio.replay(body, capture=studio.root / "new") == {"token": secret}
    assert not any(secret.encode() in (content or b"") for content in studio.everything().values())
