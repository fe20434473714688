"""Commands: sent until acknowledged, to one stream, and only while they may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from reenact.server.replays.expiry import sweep
from reenact.server.storage import people
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, ask_for, code_of


def _state(client: httpx.Client, replay_id: str) -> tuple[str, str]:
    replay = client.get(f"/api/v1/replays/{replay_id}").json()
    return replay["state"], replay["code"]


def _records(house: House, replay_id: str) -> list[tuple[str, str]]:
    return [
        (one["action"], one.get("outcome", ""))
        for one in house.records()
        if one.get("replayId") == replay_id
    ]


def test_what_was_not_acknowledged_is_sent_again(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    with agent.stream() as stream:
        first = stream.next()
    with agent.stream(**{"Last-Event-ID": first["id"]}) as stream:
        assert stream.next() == first
        agent.say(replay_id, "delivered")
    other = ask_for(operator).json()["replayId"]
    with agent.stream() as stream:
        again = agent.read_command(stream.next()["data"])
    assert again.replay_id == other


def test_commands_come_in_order(house: House, agent: Puppet, operator: httpx.Client) -> None:
    ids = [ask_for(operator).json()["replayId"] for _ in range(3)]
    with agent.stream() as stream:
        events = [stream.next() for _ in ids]
    assert [agent.read_command(one["data"]).replay_id for one in events] == ids
    assert [one["id"] for one in events] == ["1", "2", "3"]


def test_a_stream_is_not_kept_by_a_proxy(agent: Puppet) -> None:
    with agent.stream() as stream:
        headers = stream.answer.headers
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["x-accel-buffering"] == "no"
    assert headers["cache-control"] == "no-store"


def test_a_newer_stream_ends_the_older_one(agent: Puppet) -> None:
    with agent.stream() as older, agent.stream():
        assert older.next()["event"] == "superseded"
        with pytest.raises(StopIteration):
            older.next()


def test_a_newer_registration_supersedes_the_older_one(house: House, agent: Puppet) -> None:
    newer = Puppet(house, key=agent.key)
    with agent.stream() as older:
        assert newer.register().json()["epoch"] == 2
        assert older.next()["event"] == "superseded"
    assert code_of(agent.heartbeat()) == (409, "agent_superseded")
    assert code_of(agent.say("rpl_x", "delivered")) == (409, "agent_superseded")
    path = f"/api/v1/agents/{agent.agent_id}/commands?epoch=1"
    assert code_of(agent.http.get(path)) == (409, "agent_superseded")
    assert newer.heartbeat().status_code == 204


def test_a_stream_ends_when_its_key_is_revoked(house: House, agent: Puppet) -> None:
    with agent.stream() as stream:
        house.run(_revoke(house, agent.key))
        with pytest.raises(StopIteration):
            stream.next()
    assert agent.heartbeat().status_code == 401


async def _revoke(house: House, key: str) -> None:
    async with house.server.database.writing("default") as scope:
        rows = await people.keys(scope, "", 100)
        found = next(one for one in rows if one.id.removeprefix("key_") in key)
        await people.revoke_key(scope, found.id, house.clock())


def test_a_server_that_stops_says_so_first(house: House, agent: Puppet) -> None:
    with agent.stream() as stream:
        house.run(_stop(house))
        assert stream.next()["event"] == "drain"


async def _stop(house: House) -> None:
    house.server.stopping.set()


def _downgrade(house: House, _: str) -> None:
    house.set_tier("mid")


def _shared(house: House, _: str) -> None:
    house.set_tier("business", dedicated=False)


def _take_key(house: House, key: str) -> None:
    house.run(_revoke(house, key))


def _seal(house: House, _: str) -> None:
    house.environment("staging", "production")


@pytest.mark.parametrize(
    "change, code",
    [
        (_downgrade, "tier_required"),
        (_shared, "tier_required"),
        (_take_key, "permission_denied"),
        (_seal, "production_permission_required"),
    ],
)
def test_what_was_allowed_when_it_was_asked_for_is_looked_at_again(
    house: House, agent: Puppet, change: Callable[[House, str], None], code: str
) -> None:
    key = house.key("replayer")
    replay_id = ask_for(house.client(key)).json()["replayId"]
    change(house, key)
    with agent.stream() as stream:
        viewer = house.client(house.key("viewer"))
        with viewer.stream("GET", f"/api/v1/replays/{replay_id}/events") as watching:
            last = [line for line in watching.iter_lines() if line.startswith("data: ")][-1]
        assert f'"state":"refused","code":"{code}"' in last
        house.environment("staging")
        house.set_tier("business")
        other = ask_for(house.client(house.key("replayer"))).json()["replayId"]
        assert agent.read_command(stream.next()["data"]).replay_id == other
    assert _records(house, replay_id) == [("replay.requested", ""), ("replay.finished", "refused")]


def test_a_grant_of_a_user_that_was_taken_away_stops_a_replay(house: House, agent: Puppet) -> None:
    user = house.user("ann@example.com", "viewer", "replay:execute")
    operator = house.client(house.key(owner=user))
    replay_id = ask_for(operator).json()["replayId"]
    house.run(_ungrant(house, user))
    path = f"/api/v1/replays/{replay_id}/events"
    with agent.stream(), operator.stream("GET", path) as watching:
        list(watching.iter_lines())
    assert _state(operator, replay_id) == ("refused", "permission_denied")


async def _ungrant(house: House, user: str) -> None:
    async with house.server.database.writing("default") as scope:
        for grant in await people.grants_of(scope, "user", user):
            if grant.what != "viewer":
                await people.remove_grant(scope, user, grant.id)


def test_a_replay_that_nobody_takes_expires(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    for seconds in (20, 20, 19):
        _pass(house, seconds)
        agent.heartbeat()
    assert _state(operator, replay_id) == ("requested", "")
    _pass(house, 1)
    assert _state(operator, replay_id) == ("expired", "not_delivered")
    assert _records(house, replay_id) == [("replay.requested", ""), ("replay.finished", "expired")]
    agent.heartbeat()
    other = ask_for(operator).json()["replayId"]
    with agent.stream() as stream:
        assert agent.read_command(stream.next()["data"]).replay_id == other


def test_a_replay_that_does_not_start_expires(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    agent.say(replay_id, "delivered")
    _pass(house, 29)
    assert _state(operator, replay_id) == ("delivered", "")
    _pass(house, 1)
    assert _state(operator, replay_id) == ("expired", "not_started")


def test_a_replay_that_does_not_end_expires_and_comes_too_late(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        replay = ask_for(operator).json()
        made = agent.outcome(agent.read_command(stream.next()["data"]))
        agent.say(replay["replayId"], "delivered")
        agent.say(replay["replayId"], "running")
        _pass(house, (replay["deadline"] - house.clock()) / 1000 - 1)
        assert _state(operator, replay["replayId"]) == ("running", "")
        _pass(house, 1)
    assert _state(operator, replay["replayId"]) == ("expired", "not_finished")
    assert [one["code"] for one in agent.ingest(made)] == ["replay_unknown"]
    assert agent.say(replay["replayId"], "failed").status_code == 204
    assert _state(operator, replay["replayId"]) == ("expired", "not_finished")
    assert len(_records(house, replay["replayId"])) == 2


def _pass(house: House, seconds: float) -> None:
    house.clock.move(seconds)
    house.run(sweep(house.server))


@pytest.mark.parametrize(
    "state, code", [("refused", "route_unknown"), ("failed", "internal"), ("cancelled", "")]
)
def test_what_an_agent_says_ends_a_replay_once(
    house: House, agent: Puppet, operator: httpx.Client, state: str, code: str
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    with agent.stream() as stream:
        stream.next()
    for _ in range(2):
        assert agent.say(replay_id, state, code=code, message="so it is").status_code == 204
    assert agent.say(replay_id, "running").status_code == 204
    assert _state(operator, replay_id) == (state, code)
    assert _records(house, replay_id) == [("replay.requested", ""), ("replay.finished", state)]
    assert code_of(agent.source(replay_id)) == (410, "gone")


def test_an_agent_speaks_only_of_its_own_replays(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    other = Puppet(house, agent_id="agent-2")
    other.register()
    assert code_of(other.say(replay_id, "refused")) == (404, "not_found")
    assert code_of(other.source(replay_id)) == (404, "not_found")
    as_other = Puppet(house, agent_id=agent.agent_id)  # the name of one, the key of another
    as_other.epoch = agent.epoch
    assert code_of(as_other.say(replay_id, "refused")) == (404, "agent_unknown")
    assert code_of(as_other.heartbeat()) == (404, "agent_unknown")
    assert _state(operator, replay_id) == ("requested", "")


def test_a_replay_that_has_not_left_is_cancelled_at_once(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    assert operator.post(f"/api/v1/replays/{replay_id}/cancel").json()["state"] == "cancelled"
    assert operator.post(f"/api/v1/replays/{replay_id}/cancel").status_code == 200
    assert _records(house, replay_id) == [
        ("replay.requested", ""),
        ("replay.cancelled", "ok"),
        ("replay.finished", "cancelled"),
    ]


def test_a_replay_that_runs_is_cancelled_by_its_agent(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        replay_id = ask_for(operator).json()["replayId"]
        stream.next()
        agent.say(replay_id, "delivered")
        agent.say(replay_id, "running")
        for _ in range(2):
            answer = operator.post(f"/api/v1/replays/{replay_id}/cancel")
            assert answer.json()["state"] == "running"
        event = stream.next()
        assert event["event"] == "cancel"
        assert agent.read_command(event["data"]).replay_id == replay_id
        agent.say(replay_id, "cancelled")
    assert _state(operator, replay_id) == ("cancelled", "")
    assert [one[0] for one in _records(house, replay_id)].count("replay.cancelled") == 1


def test_who_may_not_replay_there_may_not_cancel_there(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    other = house.client(house.key("viewer", "replay:execute:production"))
    answer = other.post(f"/api/v1/replays/{replay_id}/cancel")
    assert code_of(answer) == (403, "permission_denied")
    assert _state(operator, replay_id) == ("requested", "")
    assert house.records("access.denied")[-1]["permission"] == "replay:execute"


def test_two_operators_at_once_have_two_replays(house: House, agent: Puppet) -> None:
    one, two = (house.client(house.key("replayer")) for _ in range(2))
    with agent.stream() as stream:
        ids = {ask_for(client).json()["replayId"] for client in (one, two)}
        commands = [agent.read_command(stream.next()["data"]) for _ in ids]
        assert {command.replay_id for command in commands} == ids
        assert len({command.nonce for command in commands}) == 2
        for command in reversed(commands):
            agent.run(command)
    listed = one.get("/api/v1/replays", params={"exchange": "ex-1"}).json()["items"]
    assert {(row["replayId"], row["state"]) for row in listed} == {
        (replay_id, "completed") for replay_id in ids
    }


@pytest.mark.parametrize("said", [{"app": "bank"}, {"environment": "production"}])
def test_an_agent_that_says_it_is_elsewhere_is_refused_and_on_record(
    house: House, agent: Puppet, said: dict[str, Any]
) -> None:
    assert code_of(agent.register(**said)) == (403, "key_bound_elsewhere")
    records = house.records("agent.refused")
    assert [one["code"] for one in records] == ["key_bound_elsewhere"]
    assert records[0]["env"] == "staging"
    assert house.records("access.denied") == []


def test_an_agent_cannot_take_the_name_of_one_elsewhere(house: House, agent: Puppet) -> None:
    other = Puppet(house, app="bank")
    assert code_of(other.register()) == (403, "key_bound_elsewhere")
    assert agent.heartbeat().status_code == 204


def test_registrations_are_on_record_when_they_say_something_new(
    house: House, agent: Puppet
) -> None:
    agent.register()
    agent.register(version="2")
    assert len(house.records("agent.registered")) == 2
    assert code_of(agent.register(protocol=2)) == (422, "invalid")


def test_agents_are_listed_as_they_were_last_heard(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    agent.heartbeat(spooled=3, dropped=1, running=["rpl_1"])
    (shown,) = operator.get("/api/v1/agents").json()["items"]
    assert (shown["state"], shown["spooled"], shown["dropped"]) == ("online", 3, 1)
    assert (shown["environmentKind"], shown["running"]) == ("non-production", ["rpl_1"])
    assert shown["routes"][0]["routeId"] == "orders"
    house.clock.move(46)
    assert operator.get("/api/v1/agents").json()["items"][0]["state"] == "offline"


def test_a_user_is_no_agent(house: House, agent: Puppet, operator: httpx.Client) -> None:
    assert code_of(operator.post("/api/v1/agents", json={})) == (403, "permission_denied")
    assert code_of(agent.http.get("/api/v1/exchanges")) == (403, "permission_denied")
