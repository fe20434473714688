"""What the page of a replay says that came to no end of its own."""

from __future__ import annotations

import pytest

from reenact.cli import waiting
from reenact.server.pages.endings import WAYS_OUT
from tests.server.house import House
from tests.server.test_page_names import HTML, agent_of, words
from tests.server.traffic.puppet import ask_for


def test_pages_know_a_way_out_of_all_that_commands_know_one_of() -> None:
    assert set(WAYS_OUT) == set(waiting.WAYS_OUT)


@pytest.mark.parametrize(
    "state, code, message, said, place",
    [
        ("failed", "internal", "it broke <b>", "It broke &lt;b&gt; internal Look at the log", ""),
        ("refused", "route_unknown", "", "route unknown", "/exchanges/ex-1/replay"),
        ("refused", "busy", "two run", "two run busy Wait", "/agents?app=shop"),
        ("refused", "depth", "too deep", "too deep depth Replay the original", "/exchanges/ex-1"),
        ("failed", "something_new", "", "something new", ""),
    ],
)
def test_why_it_came_to_nothing_and_what_to_do(
    house: House, state: str, code: str, message: str, said: str, place: str
) -> None:
    agent = agent_of(house, "till 7")
    client = house.client(house.key("replayer"), **HTML)
    replay = ask_for(client).json()["replayId"]
    with agent.stream() as stream:
        agent.read_command(stream.next()["data"])
    if state == "failed":
        agent.say(replay, "running")
    agent.say(replay, state, code=code, message=message)
    page = client.get(f"/replays/{replay}").text
    assert said.lower() in words(page).lower()
    alert = page.partition('class="alert"')[2].partition("</div>")[0]
    assert (f'href="{place}"' in alert) if place else ("href" not in alert)


def test_one_that_ended_as_it_should_says_nothing(house: House) -> None:
    agent = agent_of(house, "till 7")
    client = house.client(house.key("replayer"), **HTML)
    replay = ask_for(client).json()["replayId"]
    with agent.stream() as stream:
        command = agent.read_command(stream.next()["data"])
    agent.say(replay, "running")
    agent.run(command)
    page = client.get(f"/replays/{replay}").text
    assert "completed" in words(page)
    assert 'class="alert"' not in page
