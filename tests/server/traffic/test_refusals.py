"""Every reason to refuse a replay has its code, and is on record."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from reenact.exchange.model import Body, Payload
from reenact.server.auth.permissions import Grant
from reenact.server.replays.expiry import sweep
from reenact.server.runtime import Limits
from reenact.server.storage.tables import COMMANDS, REPLAYS
from tests.server.fire.running import until
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, ask_for, code_of, exchange, start


def _denials(house: House) -> list[tuple[str, str, str, str]]:
    return [
        (one["code"], one["permission"], one["env"], one["outcome"])
        for one in house.records("replay.denied")
    ]


def _nothing_was_asked_for(house: House) -> bool:
    return not house.records("replay.requested") and not house.records("access.denied")


def test_what_has_no_recording_is_not_answered_from_it(house: House, agent: Puppet) -> None:
    agent.ingest(exchange("bare", recording=None))
    client = house.client(house.key("replayer", "replay:live"))
    answer = ask_for(client, "bare")
    assert code_of(answer) == (412, "not_replayable")
    assert "not recorded" in answer.json()["error"]["message"]
    assert "recorded_then_live" in answer.json()["error"]["hint"]
    assert _denials(house) == [("not_replayable", "replay:execute", "staging", "refused")]
    live = ask_for(client, "bare", boundaries="recorded_then_live", reason="x")
    assert live.status_code == 202


@pytest.mark.parametrize("tier, dedicated", [("low", True), ("mid", True), ("high", False)])
def test_tiers_without_replay(
    house: House, agent: Puppet, operator: httpx.Client, tier: Any, dedicated: bool
) -> None:
    house.set_tier(tier, dedicated)
    assert code_of(ask_for(operator)) == (403, "tier_required")
    assert _denials(house) == [("tier_required", "replay:execute", "staging", "denied")]
    assert _nothing_was_asked_for(house)


def test_a_viewer_gets_no_further_than_the_door(house: House, agent: Puppet) -> None:
    assert code_of(ask_for(house.client(house.key("viewer")))) == (403, "permission_denied")
    assert not house.records("replay.requested")


def test_a_grant_elsewhere_is_not_enough(house: House, agent: Puppet) -> None:
    key = house.key("viewer", Grant("replayer", environment="dev"))
    assert code_of(ask_for(house.client(key))) == (403, "permission_denied")
    assert _denials(house) == [("permission_denied", "replay:execute", "staging", "denied")]


def test_production_needs_a_permission_of_its_own(house: House) -> None:
    agent = Puppet(house, environment="live")  # nobody said of what kind: it is production
    agent.register()
    agent.ingest(exchange())
    replayer = house.client(house.key("replayer"))
    assert code_of(ask_for(replayer, reason="x")) == (403, "production_permission_required")
    both = house.client(house.key("production replayer"))
    assert code_of(ask_for(both)) == (422, "reason_required")
    assert ask_for(both, reason="order 7 is stuck").status_code == 202
    permission = "replay:execute:production"
    assert _denials(house) == [
        ("production_permission_required", permission, "live", "denied"),
        ("reason_required", permission, "live", "refused"),
    ]


def test_the_permission_for_production_is_none_for_elsewhere(house: House, agent: Puppet) -> None:
    key = house.key("viewer", "replay:execute:production")
    assert code_of(ask_for(house.client(key))) == (403, "permission_denied")


def test_the_environment_is_that_of_the_agent_whatever_is_asked(
    house: House, agent: Puppet
) -> None:
    """The exchange came from staging; the agent that is asked for runs in production."""
    other = Puppet(house, agent_id="agent-2", environment="live")
    other.register()
    replayer = house.client(house.key("replayer"))
    answer = ask_for(replayer, target={"agentId": "agent-2"}, reason="x")
    assert code_of(answer) == (403, "production_permission_required")
    answer = ask_for(replayer, target={"agentId": "agent-2", "environment": "staging"}, reason="x")
    assert code_of(answer) == (422, "payload_invalid")


@pytest.mark.parametrize("boundaries", ["recorded_then_live", "live"])
def test_the_live_world_needs_a_permission_of_its_own(
    house: House, agent: Puppet, operator: httpx.Client, boundaries: str
) -> None:
    assert code_of(ask_for(operator, boundaries=boundaries)) == (403, "live_permission_required")
    assert _denials(house) == [("live_permission_required", "replay:live", "staging", "denied")]
    bold = house.client(house.key("replayer", "replay:live"))
    assert ask_for(bold, boundaries=boundaries, reason="stuck").status_code == 202


@pytest.mark.parametrize("boundaries", ["recorded_then_live", "live"])
def test_live_replay_needs_a_reason_and_is_audited_under_replay_live(
    house: House, agent: Puppet, boundaries: str
) -> None:
    bold = house.client(house.key("replayer", "replay:live"))
    refused = ask_for(bold, boundaries=boundaries, reason=" ")
    assert code_of(refused) == (422, "reason_required")
    assert refused.json()["error"]["message"] == "a replay with live calls needs a reason"
    assert _denials(house) == [("reason_required", "replay:live", "staging", "refused")]
    assert ask_for(bold, boundaries=boundaries, reason="stuck").status_code == 202
    [record] = house.records("replay.requested")
    assert (record["permission"], record["reason"]) == ("replay:live", "stuck")
    assert record["details"]["executePermission"] == "replay:execute"


def test_an_agent_that_is_silent_for_three_heartbeats_is_offline(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    house.clock.move(3 * house.server.timings.heartbeat)
    assert code_of(ask_for(operator)) == (409, "agent_offline")
    assert agent.heartbeat().status_code == 204
    assert ask_for(operator).status_code == 202
    assert _denials(house) == [("agent_offline", "replay:execute", "staging", "refused")]


def test_an_agent_that_said_goodbye_or_never_came_is_offline(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    gone = agent.http.delete(f"/api/v1/agents/{agent.agent_id}?epoch={agent.epoch}")
    assert gone.status_code == 204
    assert code_of(ask_for(operator)) == (409, "agent_offline")
    assert code_of(ask_for(operator, target={"agentId": "nobody"})) == (409, "agent_offline")
    assert code_of(ask_for(operator, target={"agentId": agent.agent_id})) == (409, "agent_offline")
    dev = ask_for(house.client(house.key("production replayer")), target={"environment": "dev"})
    assert code_of(dev) == (422, "reason_required")  # nobody is there, and it counts as production


def test_a_requested_replay_is_refused_at_once_when_its_agent_signs_off(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    agent.http.delete(f"/api/v1/agents/{agent.agent_id}?epoch={agent.epoch}")
    found = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert (found["state"], found["code"]) == ("refused", "agent_offline")


def test_a_requested_replay_is_refused_when_its_agent_falls_silent(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    house.run(sweep(house.server))
    assert operator.get(f"/api/v1/replays/{replay_id}").json()["state"] == "requested"
    house.clock.move(3 * house.server.timings.heartbeat)
    house.run(sweep(house.server))
    found = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert (found["state"], found["code"]) == ("refused", "agent_offline")


def test_a_requested_replay_is_refused_when_its_agent_was_killed(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream():
        until(lambda: house.server.streams.open)
    until(
        lambda: not house.server.streams.open
    )  # as the kernel closes what a dead process had open
    replay_id = ask_for(operator).json()["replayId"]
    house.run(sweep(house.server))
    assert operator.get(f"/api/v1/replays/{replay_id}").json()["state"] == "requested"
    house.clock.move(house.server.timings.reconnect)
    house.run(sweep(house.server, begun=house.server.now()))
    found = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert (found["state"], found["code"]) == ("refused", "agent_offline")
    assert code_of(ask_for(operator)) == (409, "agent_offline")
    assert code_of(agent.heartbeat()) == (404, "agent_unknown")
    agent.register()
    assert ask_for(operator).status_code == 202


@pytest.mark.parametrize("heard", ["heartbeat", "stream", "register"])
def test_an_agent_that_reconnects_in_time_stays_online(
    heard: str, house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream():
        until(lambda: house.server.streams.open)
    until(lambda: not house.server.streams.open)
    house.clock.move(1)
    with agent.stream() if heard == "stream" else nullcontext():
        if heard != "stream":
            getattr(agent, heard)()
        house.clock.move(house.server.timings.reconnect)
        house.run(sweep(house.server))
        assert ask_for(operator).status_code == 202


def test_what_says_that_it_cannot_be_replayed(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    clipped = Payload(body=Body(type="text", clipped=9_000_000))
    agent.ingest(exchange("ex-2", start=clipped, not_replayable="the body is too large"))
    answer = ask_for(operator, "ex-2")
    assert code_of(answer) == (412, "not_replayable")
    assert "the body is too large" in answer.json()["error"]["message"]


def test_removed_values_are_given_with_the_replay_or_by_the_agent(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    headers = (("Authorization", "[redacted]"),)
    hidden = Payload(headers=headers, body=start().body)
    agent.ingest(exchange("ex-2", start=hidden, redacted=("/headers/authorization",)))
    answer = ask_for(operator, "ex-2")
    assert code_of(answer) == (412, "not_replayable")
    assert answer.json()["error"]["details"]["paths"] == ["/headers/authorization"]
    patch = [{"op": "replace", "path": "/headers/Authorization", "value": "Bearer of-somebody"}]
    given = ask_for(operator, "ex-2", patch=patch)
    assert given.status_code == 202
    assert agent.source(given.json()["replayId"]).json().get("redacted", []) == []
    agent.register(capabilities=["replay", "cancel", "credentials"])
    asked = ask_for(operator, "ex-2").json()["replayId"]
    assert agent.source(asked).json()["redacted"] == ["/headers/authorization"]


def test_what_was_typed_as_a_credential_is_nowhere_to_be_seen(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    secret = "Bearer " + "s3cr3t" * 6
    patch = [{"op": "add", "path": "/headers/authorization", "value": secret}]
    replay_id = ask_for(operator, patch=patch).json()["replayId"]
    shown = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert shown["patch"][0]["path"] == "/headers/authorization"
    proof = operator.get(f"/api/v1/replays/{replay_id}/proof").text
    assert secret not in str(shown)
    assert secret not in proof
    assert secret not in str(house.records())
    operator.post(f"/api/v1/replays/{replay_id}/cancel")
    assert house.run(_kept(house, replay_id)) == (b"", b"")  # nobody needs it any more


async def _kept(house: House, replay_id: str) -> tuple[bytes, bytes]:
    async with house.server.database.reading("default") as scope:
        replay = await scope.one(scope.select(REPLAYS).where(REPLAYS.c.replay_id == replay_id))
        command = await scope.one(scope.select(COMMANDS).where(COMMANDS.c.replay_id == replay_id))
    assert replay is not None
    assert command is not None
    return replay.payload, command.document


def test_a_route_that_the_agent_does_not_have(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    agent.register(routes=[])
    assert code_of(ask_for(operator)) == (412, "not_replayable")
    agent.register(capabilities=[])
    assert code_of(ask_for(operator)) == (412, "not_replayable")


def test_the_same_revision_is_refused_when_the_route_has_changed(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    assert ask_for(operator, revision="same").json()["revision"] == "same"
    agent.register(routes=[{"routeId": "orders", "revision": "r2"}])
    answer = ask_for(operator, revision="same")
    assert code_of(answer) == (409, "revision_mismatch")
    assert answer.json()["error"]["details"] == {"recorded": "r1", "current": "r2"}
    assert ask_for(operator, revision="current").status_code == 202


@pytest.mark.parametrize(
    "wanted",
    [
        {"patch": [], "modifiedPayload": {}},
        {"patch": [{"op": "replace", "path": "/body/nothing", "value": 1}]},
        {"patch": [{"op": "jump", "path": "/body"}]},
        {"patch": [{"op": "add", "path": "/headers/x", "value": "a\r\nb: c"}]},
        {"patch": [{"op": "add", "path": "/headers/x y", "value": "a"}]},
        {"modifiedPayload": {"body": {"type": "json", "text": "{"}}},
        {"modifiedPayload": {"body": {"type": "text", "text": "x" * ((1 << 20) + 1)}}},
        {"modifiedPayload": {"body": {"type": "text", "clipped": 1}}},
        {"modifiedPayload": {"headers": [["a b", "c"]]}},
        {"patch": [{"op": "add", "path": "/body", "value": msgspec.Raw(b"[" * 200 + b"]" * 200)}]},
    ],
    ids=range(10),
)
def test_payloads_that_cannot_be(
    house: House, agent: Puppet, operator: httpx.Client, wanted: dict[str, Any]
) -> None:
    assert code_of(ask_for(operator, **wanted)) == (422, "payload_invalid")
    assert [one[0] for one in _denials(house)] == ["payload_invalid"]
    assert _nothing_was_asked_for(house)


@pytest.mark.parametrize("wanted", [{"boundries": "live"}, {"strict": "yes"}, {"patch": 5}])
def test_wishes_that_are_not_understood_are_refused(
    house: House, agent: Puppet, operator: httpx.Client, wanted: dict[str, Any]
) -> None:
    assert ask_for(operator, **wanted).status_code == 422


def test_a_replay_of_a_replay_of_a_replay_ends_somewhere(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    last = "ex-1"
    with agent.stream() as stream:
        for _ in range(house.server.limits.depth):
            replay_id = ask_for(operator, last).json()["replayId"]
            agent.run(agent.read_command(stream.next()["data"]))
            last = f"of-{replay_id}"
    assert code_of(ask_for(operator, last)) == (409, "replay_depth")


def test_too_many_replays_in_a_minute(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(replays_per_minute=2)) as house:
        house.environment("staging")
        agent = Puppet(house)
        agent.register()
        agent.ingest(exchange())
        operator = house.client(house.key("replayer"))
        assert [ask_for(operator).status_code for _ in range(2)] == [202, 202]
        refused = ask_for(operator)
        assert code_of(refused) == (429, "rate_limited")
        assert refused.headers["retry-after"] == "60"
        house.clock.move(60)
        agent.heartbeat()
        assert ask_for(operator).status_code == 202


def test_the_same_idempotency_key_gives_the_same_replay(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    one, two = (ask_for(operator, key="k-1", reason="x") for _ in range(2))
    assert one.json()["replayId"] == two.json()["replayId"]
    assert code_of(ask_for(operator, key="k-1", reason="y")) == (409, "idempotency_conflict")
    other = house.client(house.key("replayer"))
    assert ask_for(other, key="k-1", reason="x").json()["replayId"] != one.json()["replayId"]
    assert len(house.records("replay.requested")) == 2
    assert ask_for(operator, key="two words").status_code == 422


def test_the_same_key_twice_at_once_is_one_replay(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask_for(operator, key="k-1"), range(4)))
    assert {one.status_code for one in answers} == {202}
    assert len({one.json()["replayId"] for one in answers}) == 1
    assert len(house.records("replay.requested")) == 1


def test_a_key_is_forgotten_after_a_day(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    first = ask_for(operator, key="k-1").json()["replayId"]
    house.clock.move(86_401)
    agent.heartbeat()
    ask_for(operator, key="k-2")
    assert ask_for(operator, key="k-1").json()["replayId"] != first


@pytest.mark.parametrize(
    "path",
    [
        lambda replay: "/api/v1/exchanges/ex-1",
        lambda replay: "/api/v1/exchanges/ex-1/lineage",
        lambda replay: f"/api/v1/replays/{replay}",
        lambda replay: f"/api/v1/replays/{replay}/events",
        lambda replay: f"/api/v1/replays/{replay}/proof",
    ],
)
def test_another_tenant_sees_nothing_of_it(
    house: House, agent: Puppet, operator: httpx.Client, path: Callable[[str], str]
) -> None:
    replay_id = ask_for(operator).json()["replayId"]
    house.tenant("other")
    stranger = house.client(house.key("production replayer", "audit:read", tenant="other"))
    assert code_of(stranger.get(path(replay_id))) == (404, "not_found")
    assert code_of(ask_for(stranger)) == (404, "not_found")
    assert stranger.get("/api/v1/exchanges").json()["items"] == []


def test_a_grant_for_one_environment_shows_only_that(house: House, agent: Puppet) -> None:
    live = Puppet(house, agent_id="agent-2", environment="live")
    live.register()
    live.ingest(exchange("ex-live"))
    viewer = house.client(house.key(Grant("viewer", environment="staging")))
    shown = [one["exchangeId"] for one in viewer.get("/api/v1/exchanges").json()["items"]]
    assert shown == ["ex-1"]
    assert [one["agentId"] for one in viewer.get("/api/v1/agents").json()["items"]] == ["agent-1"]
    assert code_of(viewer.get("/api/v1/exchanges/ex-live")) == (403, "permission_denied")
    assert code_of(viewer.get("/api/v1/exchanges/ex-1/diff/ex-live"))[0] == 403


@pytest.mark.parametrize("boundaries", ["live", "recorded_then_live"])
def test_recorded_variables_without_a_recording_are_refused(
    agent: Puppet, house: House, boundaries: str
) -> None:
    somebody = house.client(house.key("replayer", "replay:live"))
    agent.ingest(exchange("ex-bare", recording=None))
    answer = ask_for(
        somebody,
        "ex-bare",
        boundaries=boundaries,
        environmentVariables="recorded",
        reason="a try",
    )
    assert code_of(answer) == (422, "payload_invalid")
    assert "recorded environment variables need a recording" in answer.json()["error"]["message"]


def test_undeclared_drivers_are_refused_unless_everything_is_live(
    agent: Puppet, house: House
) -> None:
    undeclared = {"drivers": [{"name": "psycopg"}, {"name": "redis", "treatment": "allow"}]}
    agent.register(containment=undeclared)
    somebody = house.client(house.key("replayer", "replay:live"))
    for boundaries in ("recorded", "recorded_then_live"):
        answer = ask_for(somebody, boundaries=boundaries, reason="a try")
        assert code_of(answer) == (409, "drivers_undeclared")
        assert answer.json()["error"]["details"]["drivers"] == ["psycopg"]
    live = ask_for(somebody, boundaries="live", reason="a try")
    assert live.status_code == 202, live.text
    assert live.json()["containment"]["files"] == "allow"
    details = house.records()[-1]["details"]
    assert details["drivers"] == "psycopg allow, redis allow"


def test_agent_with_declared_drivers_is_preferred(agent: Puppet, house: House) -> None:
    """While a new version of the app is rolled out, the old one is still there."""
    other = Puppet(house, agent_id="agent-2")
    other.register(containment={"drivers": [{"name": "psycopg"}]})
    house.clock.at += 1_000
    other.heartbeat()
    somebody = house.client(house.key("replayer"))
    assert ask_for(somebody).json()["agentId"] == "agent-1"
