"""The net under the hints: what a stream was not told is found all the same, for all of them at once."""

from __future__ import annotations

from contextlib import ExitStack

import httpx

from reenact.server.agents.command_stream import sweep
from reenact.server.runtime import OpenStream
from reenact.server.storage import people
from tests.server.fire.running import until
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, ask_for, exchange


def stream_of(house: House, agent: Puppet) -> OpenStream:
    """As a stream that the agent has just opened, and that hears nothing."""
    key_id = "key_" + agent.key.split("_")[2]
    with agent.stream() as stream:
        assert stream.answer.status_code == 200
        (found,) = until(lambda: house.server.streams.open)
    until(lambda: not house.server.streams.open)
    assert (found.agent_id, found.epoch, found.key_id) == (agent.agent_id, agent.epoch, key_id)
    return found


def test_nobody_is_woken_for_nothing(house: House, agent: Puppet) -> None:
    with house.server.streams.having(stream_of(house, agent)):
        assert house.run(sweep(house.server)) == 0
    assert house.run(sweep(house.server)) == 0


def test_a_command_that_nobody_was_told_of_is_found(house: House, agent: Puppet) -> None:
    agent.ingest(exchange("ex-2"))
    operator: httpx.Client = house.client(house.key("replayer", "replay:live"))
    others = [Puppet(house, agent_id=f"other-{number}", key=agent.key) for number in range(3)]
    for other in others:
        other.register()
    streams = [stream_of(house, one) for one in (agent, *others)]
    with ExitStack() as stack:
        for one in streams:
            stack.enter_context(house.server.streams.having(one))
        assert house.run(sweep(house.server)) == 0
        asked = ask_for(operator, boundaries="live", reason="x", target={"agentId": "agent-1"})
        assert asked.status_code == 202
        with house.server.notifications.subscribe("agent:default:agent-1") as subscription:
            assert house.run(sweep(house.server)) == 1
            assert house.run(subscription.wait(10))
    with agent.stream() as stream:
        agent.say(agent.read_command(stream.next()["data"]).replay_id, "delivered")
    with house.server.streams.having(stream_of(house, agent)):
        assert house.run(sweep(house.server)) == 0


def test_a_stream_that_is_not_the_last_one_is_woken(house: House, agent: Puppet) -> None:
    with house.server.streams.having(stream_of(house, agent)):
        agent.register()
        assert house.run(sweep(house.server)) == 1


def test_a_stream_whose_agent_has_left_is_woken(house: House, agent: Puppet) -> None:
    with house.server.streams.having(stream_of(house, agent)):
        agent.http.delete(f"/api/v1/agents/agent-1?epoch={agent.epoch}")
        assert house.run(sweep(house.server)) == 1


def test_a_stream_whose_key_was_revoked_is_woken(house: House, agent: Puppet) -> None:
    found = stream_of(house, agent)

    async def revoke() -> None:
        async with house.server.database.writing("default") as scope:
            assert await people.revoke_key(scope, found.key_id, house.clock())

    with house.server.streams.having(found):
        house.run(revoke())
        assert house.run(sweep(house.server)) == 1
