"""What is left of a recording when all processes of a replay have ended."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import reenact
from reenact.engine.decision.usage_ledger import UsageLedger
from reenact.engine.session.settings import Settings, resolve_settings
from reenact.runs.replay_checks import UnusedCalls, find_unused_calls


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of the replay of a recording: two calls, and thirty in a thread."""
    with reenact.session(capture=tmp_path / "c", mode="record", seal=False) as session:

        def ask(*names: str) -> None:
            for name in names:
                session.call(name, {"n": 1}, lambda: "answer", capability="net.fetch")

        ask("one")
        thread = threading.Thread(target=ask, args=[f"thread {n}" for n in range(30)])
        thread.start()
        thread.join()
        ask("two")
    return resolve_settings(
        capture=tmp_path / "c", mode="replay", strict=True, root=tmp_path, warn=pytest.fail
    )


def _calls(settings: Settings) -> dict[str, int]:
    """The seq of each recorded call, by its name."""
    assert settings.path is not None
    with reenact.open_recording(settings.path) as source:
        return {event.data["op"]: event.seq for event in source if "op" in event.data}


def _left(settings: Settings, used: list[str], stubbed: str | None = None) -> UnusedCalls:
    assert settings.path is not None
    folder = settings.path.parent
    calls = _calls(settings)
    ledger = UsageLedger.make(folder, max(calls.values()))
    for name in used:
        ledger.use(calls[name])
    if stubbed is not None:
        ledger.stub(stubbed)
    return find_unused_calls(settings, UsageLedger(folder))


def test_everything_was_used(settings: Settings) -> None:
    left = _left(settings, list(_calls(settings)))
    assert (left.served, left.lanes, left.unused, left.first) == (32, 2, 0, [])


def test_nothing_was_used(settings: Settings) -> None:
    left = _left(settings, [])
    assert (left.served, left.lanes, left.unused) == (0, 0, 32)
    assert len(left.first) == 20
    assert {one.code for one in left.first} == {"event_missing"}


def test_one_in_the_middle_was_not(settings: Settings) -> None:
    calls = _calls(settings)
    left = _left(settings, [name for name in calls if name != "thread 7"])
    assert (left.served, left.lanes, left.unused) == (31, 2, 1)
    (missing,) = left.first
    assert missing.event_seq == calls["thread 7"]
    assert missing.lane == "0.1"


def test_what_a_stubbed_tool_did_is_not_missed(settings: Settings) -> None:
    left = _left(settings, ["one"], stubbed="0.1")
    assert (left.served, left.lanes, left.unused) == (1, 1, 1)
    assert left.first[0].event_seq == _calls(settings)["two"]
