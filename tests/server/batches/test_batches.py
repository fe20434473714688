"""Batches: counted first, confirmed, run within their limits, once per exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec

from reenact.server.auth.permissions import Grant
from reenact.server.runtime import Limits
from tests.server.batches.conftest import QUICK
from tests.server.batches.following import (
    PATH,
    confirm,
    ended,
    items,
    plan,
    planned,
    started,
    until,
)
from tests.server.batches.worker import Worker
from tests.server.house import START, House, running
from tests.server.traffic.puppet import ROUTE, Puppet, code_of, exchange, result


def test_a_plan_counts_and_runs_nothing(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    agent.ingest(
        exchange("ex-7", not_replayable="it was traced", recording=None),
        exchange("ex-8", route_id="other"),
        exchange("ex-9", recording=None),
    )
    batch = planned(operator, search={"app": "shop"}, boundaries="recorded")
    assert batch["state"] == "planned"
    sizing = batch["plan"]
    assert (sizing["exchanges"], sizing["replayable"], sizing["notFound"]) == (9, 7, 0)
    assert sizing["skipped"] == {"not_replayable": 2}
    assert sizing["environments"] == {"staging": 9}
    assert sizing["apps"] == {"shop": 9}
    assert sizing["routes"] == {"orders": 8, "other": 1}
    assert sizing["refused"] == {"not_replayable": 1}  # no agent has the other route
    assert (sizing["live"], sizing["withoutRecording"]) == (0, 1)
    contained = sizing["groups"][0].pop("containment")
    assert contained.get("drivers", []) == []
    assert sizing["groups"][0] == {
        "app": "shop",
        "environment": "staging",
        "environmentKind": "non-production",
        "routeId": "orders",
        "exchanges": 8,
        "replayable": 6,
        "agents": 1,
        "refused": "",
        "refusals": 0,
        "message": "",
    }
    assert batch["progress"]["waiting"] == 7
    assert operator.get("/api/v1/replays").json()["items"] == []
    assert house.records("replay.requested") == []


def test_what_would_be_refused_and_what_would_run_live_is_in_the_plan(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    live = planned(operator, search={}, boundaries="live")["plan"]
    assert (live["live"], live["refused"]) == (6, {"live_permission_required": 6})
    there = planned(operator, search={}, environment="production")["plan"]
    assert there["refused"] == {"production_permission_required": 6}
    allowed = house.client(house.key("production replayer"))
    assert planned(allowed, search={}, environment="production")["plan"]["refused"] == {
        "reason_required": 6
    }
    reasoned = planned(allowed, search={}, environment="production", reason="because")["plan"]
    assert reasoned["refused"] == {"agent_offline": 6}


def test_live_batch_needs_a_reason_and_is_audited_under_replay_live(
    house: House, agent: Puppet
) -> None:
    bold = house.client(house.key("replayer", "replay:live"))
    silent = planned(bold, search={}, boundaries="live")
    assert silent["plan"]["refused"] == {"reason_required": 6}
    assert code_of(confirm(bold, silent)) == (422, "reason_required")
    reasoned = planned(bold, search={}, boundaries="live", reason="after the outage")
    assert reasoned["plan"]["refused"] == {}
    assert confirm(bold, reasoned).status_code == 200
    [record] = house.records("batch.confirmed")
    assert (record["permission"], record["details"]["reason"]) == (
        "replay:live",
        "after the outage",
    )


def test_plan_lists_the_drivers_of_all_agents_at_a_place(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    for number, treatment in enumerate(("allow", "refuse")):
        other = Puppet(house, agent_id=f"agent-{number + 8}")
        drivers = [{"name": "redis", "treatment": treatment}, {"name": f"driver{number}"}]
        assert other.register(containment={"drivers": drivers}).status_code == 200
    [group] = planned(operator, search={})["plan"]["groups"]
    assert [
        (one["name"], one.get("treatment", "undeclared")) for one in group["containment"]["drivers"]
    ] == [
        ("driver0", "undeclared"),
        ("driver1", "undeclared"),
        ("redis", "allow"),
        ("redis", "refuse"),
    ]


def test_what_its_agents_would_refuse_is_in_the_plan(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    """As they refuse it when a batch runs: here are the same codes."""
    agent.ingest(
        exchange("ex-7", redacted=("/headers/x-user",)),
        exchange("ex-8", redacted=("/headers/content-type", "/result/body/token")),
        exchange("ex-9", route_id="other"),
        exchange("ex-10", revision="r0"),
    )
    assert agent.register(capabilities=["replay"]).status_code == 200  # later than what came
    sizing = planned(operator, search={}, revision="same")["plan"]
    assert sizing["refused"] == {"not_replayable": 3, "revision_mismatch": 1}
    orders, other = sizing["groups"]
    assert (orders["replayable"], orders["refused"], orders["refusals"]) == (9, "not_replayable", 2)
    assert orders["message"].endswith(("stored: /headers/x-user", "stored: /headers/content-type"))
    assert (other["refusals"], other["message"]) == (1, "the agent has no route 'other' any more")

    another = Puppet(house, agent_id="agent-2")
    routes = [msgspec.to_builtins(ROUTE), {"routeId": "other", "revision": "r1"}]
    assert (
        another.register(routes=routes, capabilities=["replay", "credentials"]).status_code == 200
    )
    sizing = planned(operator, search={})["plan"]
    assert sizing["refused"] == {}, "one of them can do it"


def test_a_batch_refuses_what_its_plan_said(
    agent: Puppet, worker: Worker, operator: httpx.Client
) -> None:
    agent.ingest(exchange("ex-7", redacted=("/headers/x-user",)))
    batch = planned(operator, search={})
    assert batch["plan"]["refused"] == {"not_replayable": 1}
    assert confirm(operator, batch).status_code == 200
    done = ended(operator, batch)
    assert (done["progress"]["ended"], done["progress"]["codes"]) == (6, {"not_replayable": 1})


def test_why_replays_differ_is_counted(agent: Puppet, operator: httpx.Client) -> None:
    batch = started(operator, exchanges=["ex-1", "ex-2", "ex-3", "ex-4"], concurrency=4)
    came: list[dict[str, Any]] = [
        {"result": result(11)},
        {"result": result(12)},
        {"status": "failed", "result": None},
        {},
    ]
    with agent.stream() as stream:
        for changes in came:
            agent.run(agent.read_command(stream.next()["data"]), **changes)
    ended(operator, batch)
    answer = operator.get(f"{PATH}/{batch['batchId']}/causes").json()
    named = {one["replayId"]: one for one in operator.get("/api/v1/replays").json()["items"]}
    for one in answer["items"]:
        example = named[one.pop("replayId")]
        assert (example["verdict"], example["cause"]) == (one["verdict"], one["cause"])
    total, failed = "the result: /body/total differs", "it failed, and completed before"
    assert answer["items"] == [
        {"verdict": "diverged", "cause": total, "exchanges": 2},
        {"verdict": "regressed", "cause": failed, "exchanges": 1},
    ]
    assert {one["cause"] for one in items(operator, batch)} == {total, failed, ""}
    assert len(items(operator, batch, cause=total)) == 2
    assert items(operator, batch, cause=total, verdict="regressed") == []
    few = operator.get(f"{PATH}/{batch['batchId']}/causes?limit=1").json()["items"]
    assert [one["cause"] for one in few] == [total]


def test_a_batch_runs_everything_once(house: House, worker: Worker, operator: httpx.Client) -> None:
    batch = started(operator, search={"route": "orders"}, reason="after the fix")
    done = ended(operator, batch)
    assert done["state"] == "completed"
    assert worker.ran == {f"ex-{number}": 1 for number in range(1, 7)}
    assert done["progress"]["verdicts"] == {"identical": 6}
    assert done["progress"]["outcomes"] == {"completed": 6}
    assert done["endedAt"] == START
    found = items(operator, batch)
    assert [one["state"] for one in found] == ["ended"] * 6
    assert len({one["replayId"] for one in found}) == 6
    requested = house.records("replay.requested")
    assert {one["details"]["batch"] for one in requested} == {batch["batchId"]}
    assert {one["reason"] for one in requested} == {"after the fix"}
    assert len(house.records("replay.finished")) == 6
    (confirmed,) = house.records("batch.confirmed")
    assert confirmed["subject"] == {"type": "batch", "id": batch["batchId"]}
    assert confirmed["permission"] == "replay:execute"


def test_confirming_twice_is_confirming_once(
    house: House, worker: Worker, operator: httpx.Client
) -> None:
    batch = started(operator, exchanges=["ex-1", "ex-1", "ex-2"])
    ended(operator, batch)
    assert confirm(operator, batch).json()["state"] == "completed"
    assert worker.ran == {"ex-1": 1, "ex-2": 1}
    assert len(house.records("batch.confirmed")) == 1


def test_another_batch_of_the_same_search_does_not_find_the_replays(
    worker: Worker, operator: httpx.Client
) -> None:
    ended(operator, started(operator, search={}))
    assert planned(operator, search={})["plan"]["exchanges"] == 6
    assert planned(operator, search={"replay": True})["plan"]["exchanges"] == 6


def test_the_summary_is_by_verdict(agent: Puppet, operator: httpx.Client) -> None:
    with Worker(agent, result=result(99)) as worker:
        batch = started(operator, exchanges=["ex-1", "ex-2"])
        done = ended(operator, batch)
        assert done["progress"]["verdicts"] == {"diverged": 2}
        assert len(items(operator, batch, verdict="diverged")) == 2
        assert items(operator, batch, verdict="identical") == []
        assert worker.ran == {"ex-1": 1, "ex-2": 1}


def test_an_agent_has_no_more_at_a_time_than_was_said(
    agent: Puppet, operator: httpx.Client
) -> None:
    with Worker(agent, held=True) as worker:
        batch = started(operator, search={}, concurrency=2)
        for _ in range(3):
            worker.has(2)
            worker.go()
        assert ended(operator, batch)["progress"]["ended"] == 6
        assert worker.most == 2


def test_an_agent_gets_no_more_in_a_minute_than_was_said(
    house: House, worker: Worker, operator: httpx.Client
) -> None:
    batch = started(operator, search={}, perMinute=4)
    until(operator, batch, lambda found: found["progress"]["ended"] == 4)
    assert operator.get(f"{PATH}/{batch['batchId']}").json()["progress"]["waiting"] == 2
    house.clock.move(40)
    worker.agent.heartbeat()
    house.clock.move(21)
    worker.agent.heartbeat()
    assert ended(operator, batch)["progress"]["ended"] == 6


def test_two_agents_share_the_work(house: House, agent: Puppet, operator: httpx.Client) -> None:
    other = Puppet(house, agent_id="agent-2", key=agent.key)
    other.register()
    with Worker(agent, held=True) as one, Worker(other, held=True) as two:
        batch = started(operator, search={}, concurrency=3)
        one.has(3)
        two.has(3)
        one.go()
        two.go()
        assert ended(operator, batch)["progress"]["ended"] == 6
        assert len(one.ran) == len(two.ran) == 3


def test_a_cancelled_batch_tries_nothing_more(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with Worker(agent, held=True) as worker:
        batch = started(operator, search={}, concurrency=2)
        worker.has(2)
        answer = operator.post(f"{PATH}/{batch['batchId']}/cancel")
        assert answer.json()["state"] in ("cancelling", "cancelled")
        done = ended(operator, batch)
        assert done["state"] == "cancelled"
        assert done["progress"]["cancelled"] == 4
        assert done["progress"]["outcomes"] == {"cancelled": 2}
        assert worker.ran == {}
    assert len(house.records("batch.cancelled")) == 1
    assert code_of(confirm(operator, batch)) == (409, "conflict")


def test_a_plan_that_is_cancelled_never_runs(agent: Puppet, operator: httpx.Client) -> None:
    batch = planned(operator, search={})
    answer = operator.post(f"{PATH}/{batch['batchId']}/cancel").json()
    assert (answer["state"], answer["progress"]["cancelled"]) == ("cancelled", 6)
    assert code_of(confirm(operator, batch)) == (409, "conflict")


def test_a_batch_goes_on_after_the_server_was_started_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, timings=QUICK) as house:
        house.environment("staging")
        agent = Puppet(house)
        agent.register()
        agent.ingest(*(exchange(f"ex-{number}") for number in range(1, 7)))
        key, agent_key = house.key("replayer"), agent.key
        operator = house.client(key)
        held = Worker(agent, held=True)
        held.__enter__()
        batch = started(operator, search={}, concurrency=2)
        held.has(2)
    held.join()
    with running(data, timings=QUICK) as house:
        agent = Puppet(house, key=agent_key)
        agent.register()
        operator = house.client(key)
        with Worker(agent) as worker:
            done = ended(operator, batch)
            assert done["progress"]["ended"] == 6
            assert done["progress"]["outcomes"] == {"completed": 6}
            assert worker.ran == {f"ex-{number}": 1 for number in range(1, 7)}
        assert len(house.records("replay.requested")) == 6


def test_a_batch_waits_for_an_agent_and_not_for_ever(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    house.clock.move(60)
    batch = started(operator, exchanges=["ex-1", "ex-2"])
    waits = until(operator, batch, lambda found: bool(found["hindered"]))
    assert (waits["hindered"], waits["progress"]["waiting"]) == ("agent_offline", 2)
    house.clock.move(600)
    done = ended(operator, batch)
    assert done["progress"]["codes"] == {"agent_offline": 2}
    assert (done["progress"]["refused"], done["hindered"]) == (2, "")


def test_an_agent_that_comes_back_gets_what_waited(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    house.clock.move(60)
    batch = started(operator, exchanges=["ex-1"])
    until(operator, batch, lambda found: bool(found["hindered"]))
    agent.register()
    with Worker(agent) as worker:
        assert ended(operator, batch)["progress"]["ended"] == 1
        assert worker.ran == {"ex-1": 1}


def test_one_who_lost_the_permission_orders_nothing_more(house: House, agent: Puppet) -> None:
    key = house.key("exchange:read", Grant("replay:execute", expires_at=START + 5_000))
    operator = house.client(key)
    with Worker(agent, held=True) as worker:
        batch = started(operator, search={}, concurrency=1)
        worker.has(1)
        house.clock.move(6)
        worker.go()
        done = ended(operator, batch)
    assert (done["progress"]["ended"], done["progress"]["refused"]) == (1, 5)
    assert done["progress"]["codes"] == {"permission_denied": 5}
    (denied,) = house.records("replay.denied")
    assert denied["code"] == "permission_denied"


def test_nobody_confirms_what_they_may_not_do(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    live = planned(operator, search={}, boundaries="live")
    assert code_of(confirm(operator, live)) == (403, "live_permission_required")
    viewer = house.client(house.key("viewer"))
    batch = planned(operator, search={})
    assert code_of(confirm(viewer, batch)) == (403, "permission_denied")
    assert code_of(plan(viewer, search={})) == (403, "permission_denied")
    house.set_tier("mid")
    assert code_of(confirm(operator, batch)) == (403, "tier_required")


def test_a_batch_is_seen_by_those_who_may_read_all_of_it(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    elsewhere = Puppet(house, agent_id="agent-2", environment="live")
    elsewhere.register()
    elsewhere.ingest(exchange("ex-live"))
    both = planned(operator, search={})
    limited = house.client(house.key(Grant("replayer", environment="staging")))
    answer = limited.get(f"{PATH}/{both['batchId']}")
    assert code_of(answer) == (403, "permission_denied")
    assert limited.get(PATH).json()["items"] == []
    own = planned(limited, search={})
    assert own["plan"]["environments"] == {"staging": 6}
    assert [one["batchId"] for one in limited.get(PATH).json()["items"]] == [own["batchId"]]
    assert len(operator.get(PATH).json()["items"]) == 2
    named = planned(limited, exchanges=["ex-1", "ex-live", "nowhere"])
    assert (named["plan"]["exchanges"], named["plan"]["notFound"]) == (1, 2)


def test_another_tenant_sees_nothing_of_it(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    batch = planned(operator, search={})
    house.tenant("other")
    stranger = house.client(house.key("replayer", tenant="other"))
    assert code_of(stranger.get(f"{PATH}/{batch['batchId']}")) == (404, "not_found")
    assert code_of(confirm(stranger, batch)) == (404, "not_found")
    assert stranger.get(PATH).json()["items"] == []


def test_batches_do_not_use_up_what_people_may_ask_for(
    tmp_path: Path,
) -> None:
    with running(tmp_path / "data", limits=Limits(replays_per_minute=1), timings=QUICK) as house:
        house.environment("staging")
        agent = Puppet(house)
        agent.register()
        agent.ingest(exchange("ex-1"), exchange("ex-2"))
        operator = house.client(house.key("replayer"))
        with Worker(agent):
            assert ended(operator, started(operator, search={}))["progress"]["ended"] == 2
        agent.register()
        path = "/api/v1/exchanges/ex-1/replays"
        assert operator.post(path, json={}).status_code == 202
        assert code_of(operator.post(path, json={})) == (429, "rate_limited")


def test_plans_are_forgotten_after_a_day(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    old = planned(operator, search={})
    house.clock.move(24 * 3600 + 1)
    planned(operator, search={})
    assert code_of(operator.get(f"{PATH}/{old['batchId']}")) == (404, "not_found")


def test_what_makes_no_sense_is_refused(agent: Puppet, operator: httpx.Client) -> None:
    makes_no_sense: list[dict[str, Any]] = [{}, {"search": {}, "saved": "x"}, {"exchanges": []}]
    for wanted in makes_no_sense:
        assert code_of(plan(operator, **wanted)) == (422, "invalid"), wanted
    assert code_of(plan(operator, search={}, concurrency=0)) == (422, "invalid")
    assert code_of(plan(operator, search={"rout": "x"})) == (422, "invalid")
    assert code_of(plan(operator, saved="nobody")) == (404, "not_found")
    empty = planned(operator, search={"app": "none"})
    assert code_of(confirm(operator, empty)) == (409, "conflict")


def test_lists_come_in_pieces(agent: Puppet, operator: httpx.Client) -> None:
    batches = [planned(operator, search={})["batchId"] for _ in range(3)]
    first = operator.get(PATH, params={"limit": 2}).json()
    second = operator.get(PATH, params={"limit": 2, "cursor": first["next"]}).json()
    found = [one["batchId"] for one in first["items"] + second["items"]]
    assert sorted(found) == sorted(batches)
    assert second["next"] is None
    path = f"{PATH}/{batches[0]}/items"
    piece = operator.get(path, params={"limit": 4}).json()
    rest = operator.get(path, params={"limit": 4, "cursor": piece["next"]}).json()
    assert [one["position"] for one in piece["items"] + rest["items"]] == [1, 2, 3, 4, 5, 6]
    assert rest["next"] is None
