"""Agents as they are listed: who is there, who is not, and who does not come back."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.house import House
from tests.server.traffic.puppet import Puppet, ask_for, code_of

PATH = "/api/v1/agents"
DAY = 24 * 3600


def listed(client: httpx.Client, **query: Any) -> dict[str, str]:
    answer = client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    return {one["agentId"]: one["state"] for one in answer.json()["items"]}


@pytest.fixture
def others(house: House, agent: Puppet) -> None:
    """One that was last heard a day ago, one that said goodbye, and one of another app."""
    Puppet(house, agent_id="old", key=agent.key).register()
    house.clock.move(DAY)
    left = Puppet(house, agent_id="left", key=agent.key)
    left.register()
    assert left.http.delete(f"{PATH}/left?epoch={left.epoch}").status_code == 204
    Puppet(house, agent_id="other", app="warehouse").register()
    agent.register()


@pytest.mark.usefixtures("others")
def test_who_is_gone_is_not_in_the_way(operator: httpx.Client) -> None:
    assert listed(operator) == {"agent-1": "online", "other": "online", "left": "offline"}
    assert listed(operator, state="gone") == {"old": "gone"}
    assert listed(operator, all="true") == {**listed(operator), "old": "gone"}


@pytest.mark.usefixtures("others")
def test_filters_leave_out_what_they_say(operator: httpx.Client) -> None:
    assert set(listed(operator, app="warehouse")) == {"other"}
    assert set(listed(operator, environment="staging")) == {"agent-1", "left", "other"}
    assert listed(operator, environment="production") == {}
    assert set(listed(operator, state="online")) == {"agent-1", "other"}
    assert listed(operator, state="offline", app="shop") == {"left": "offline"}


@pytest.mark.usefixtures("others")
def test_lists_of_some_come_in_pieces(operator: httpx.Client) -> None:
    first = operator.get(PATH, params={"limit": 1, "state": "online"}).json()
    second = operator.get(PATH, params={"limit": 1, "state": "online", "cursor": first["next"]})
    found = [one["agentId"] for one in first["items"] + second.json()["items"]]
    assert sorted(found) == ["agent-1", "other"]
    assert second.json()["next"] is None


def test_who_comes_back_is_there_again(house: House, agent: Puppet, operator: httpx.Client) -> None:
    house.clock.move(2 * DAY)
    assert listed(operator) == {}
    assert code_of(ask_for(operator, target={"agentId": "agent-1"})) == (409, "agent_offline")
    assert agent.heartbeat().status_code == 204
    assert listed(operator) == {"agent-1": "online"}


def test_what_is_no_filter_is_told(operator: httpx.Client) -> None:
    assert code_of(operator.get(PATH, params={"state": "away"})) == (422, "invalid")
    assert code_of(operator.get(PATH, params={"all": "perhaps"})) == (422, "invalid")
