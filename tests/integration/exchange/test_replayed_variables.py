"""Environment variables in replays of exchanges: the values of the app now, or the recorded ones."""

import os

import httpx
import pytest

from reenact.exchange import Message
from reenact.store.reader import open_recording
from tests.integration.exchange.apps import check, only, replay


@pytest.fixture
def priced(agent, upstream):
    @agent.route("prices")
    def prices(message: Message) -> dict[str, object]:
        found: dict[str, object] = {
            "flag": os.environ.get("NEW_PRICES"),
            "same": os.getenv("NEW_PRICES"),
            "names": sorted(name for name in os.environ if name.startswith("NEW_")),
        }
        if message.body.get("ask"):
            httpx.get(f"{upstream.url}/price", trust_env=False)
        return found

    return prices


@pytest.fixture
def recorded(priced, agent, monkeypatch):
    """An exchange that was recorded with the flag off, in an app that has it on now."""
    monkeypatch.setenv("NEW_PRICES", "off")
    priced({})
    monkeypatch.setenv("NEW_PRICES", "on")
    monkeypatch.setenv("NEW_NAME", "yes")
    return only(agent)


BOTH = pytest.mark.parametrize("boundaries", ["recorded", "recorded_then_live"])


def _result(finished):
    return finished.exchange.result.body.text


@BOTH
def test_fix_by_a_feature_flag_shows_in_a_replay(agent, recorded, tmp_path, boundaries):
    found = replay(agent, recorded, tmp_path / "replayed", boundaries=boundaries)
    assert _result(found) == '{"flag":"on","same":"on","names":["NEW_NAME","NEW_PRICES"]}'
    assert found.exchange.replay is not None
    assert found.exchange.replay.environment_variables == "current"
    assert found.exchange.replay.divergences == ()


@BOTH
def test_recorded_variables_are_an_option(agent, recorded, tmp_path, boundaries):
    found = replay(
        agent,
        recorded,
        tmp_path / "replayed",
        boundaries=boundaries,
        environment_variables="recorded",
    )
    assert _result(found) == '{"flag":"off","same":"off","names":["NEW_PRICES"]}'
    assert found.exchange.replay is not None
    assert found.exchange.replay.environment_variables == "recorded"


def test_recording_of_a_replay_has_the_variables_that_it_used(agent, recorded, tmp_path):
    """Otherwise a replay of the replay would read the old ones."""
    found = replay(
        agent,
        recorded,
        tmp_path / "replayed",
        ["body.ask=true"],
        boundaries="recorded_then_live",
    )
    assert found.capture is not None
    with open_recording(found.capture) as source:
        told = [event.data for event in source if event.data.get("aside")]
    assert "on" in str(told)
    assert "off" not in str(told)


def test_live_replay_with_recorded_variables_is_refused(agent, recorded):
    refusal = check(agent, recorded, boundaries="live", environment_variables="recorded")
    assert refusal is not None
    assert refusal.code == "not_replayable"
    assert "recorded environment variables need a recording" in refusal.message
