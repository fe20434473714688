"""A replay from the question to the proof, over real sockets."""

from __future__ import annotations

from pathlib import Path

import httpx
import msgspec
import pytest

from reenact.audit.replay_proof import check_replay_proof
from reenact.exchange.model import ErrorFacts
from tests.cli.samples import record_run
from tests.server.house import House
from tests.server.traffic.puppet import (
    Puppet,
    ask_for,
    exchange,
    named,
    packed,
    result,
)

EDIT = [{"op": "replace", "path": "/body/amount", "value": 7}]


def test_a_replay_is_asked_for_run_and_compared(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        answer = ask_for(operator, patch=EDIT)
        assert answer.status_code == 202
        replay_id = answer.json()["replayId"]
        assert answer.headers["location"] == f"/api/v1/replays/{replay_id}"
        event = stream.next()
        assert event["event"] == "replay"
        assert event["id"] == "1"
        command = agent.read_command(event["data"])
        assert command.replay_id == replay_id
        assert command.tenant == "default"
        assert command.modified_payload is not None
        assert command.modified_payload.body.text == '{"amount": 7}'
        assert agent.say(replay_id, "delivered").status_code == 204
        assert agent.say(replay_id, "running").status_code == 204
        assert agent.run(command, result=result(14)) == [
            {"exchangeId": f"of-{replay_id}", "status": "stored"}
        ]
    replay = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert (replay["state"], replay["verdict"]) == ("completed", "diverged")
    assert replay["patch"] == EDIT
    assert replay["exchangeId"] == f"of-{replay_id}"
    diff = operator.get(f"/api/v1/replays/{replay_id}/diff").json()
    assert diff["verdict"] == "diverged"
    assert [one["path"] for one in diff["result"]] == ["/body/total"]
    assert (
        operator.get("/api/v1/exchanges/ex-1").json()["result"]["body"]["text"] == '{"total": 10}'
    )


def test_the_audit_log_has_exactly_two_records_of_a_replay(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        replay_id = ask_for(operator, patch=EDIT, reason="a try").json()["replayId"]
        command = agent.read_command(stream.next()["data"])
        agent.say(replay_id, "delivered")
        agent.say(replay_id, "running")
        made = agent.outcome(command)
        assert agent.ingest(made)[0]["status"] == "stored"
        assert agent.ingest(made)[0]["status"] == "duplicate"  # it was not sure that it had come
    records = [one for one in house.records() if one.get("replayId") == replay_id]
    assert [one["action"] for one in records] == ["replay.requested", "replay.finished"]
    asked, done = records
    assert asked["reason"] == "a try"
    assert asked["permission"] == "replay:execute"
    assert asked["patch"][0]["path"] == "/body/amount"
    assert asked["patch"][0]["after"].startswith("hmac-sha256:")
    assert set(asked["patch"][0]) == {"op", "path", "before", "after"}
    assert done["outcome"] == "ok"
    assert done["actor"]["type"] == "agent"
    assert done["diffSummary"]["verdict"] == "equivalent"
    assert done["resultExchangeId"] == f"of-{replay_id}"
    assert done["traceDigest"]


def test_a_replay_is_proven_offline(house: House, agent: Puppet, operator: httpx.Client) -> None:
    with agent.stream() as stream:
        replay_id = ask_for(operator, patch=EDIT).json()["replayId"]
        agent.run(agent.read_command(stream.next()["data"]))
    proof = operator.get(f"/api/v1/replays/{replay_id}/proof").content
    shown = check_replay_proof(proof, [house.server.auditor.key("default")])
    assert shown.payload_after["body"]["text"] == '{"amount": 7}'
    assert shown.output["result"]["body"]["text"] == '{"total": 10}'
    assert shown.finished is not None
    assert shown.finished.outcome == "ok"


def test_whoever_may_not_read_the_exchange_gets_a_proof_without_values(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream():
        replay_id = ask_for(operator).json()["replayId"]
    auditor = house.client(house.key("audit:read"))
    proof = auditor.get(f"/api/v1/replays/{replay_id}/proof")
    assert proof.json()["values"] == []
    assert proof.json()["requested"]


def test_a_replay_that_raised_is_completed_and_has_regressed(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        replay_id = ask_for(operator).json()["replayId"]
        command = agent.read_command(stream.next()["data"])
        assert command.modified_payload is None
        agent.run(command, status="failed", error=ErrorFacts(type="ValueError"), result=None)
    replay = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert (replay["state"], replay["verdict"]) == ("completed", "regressed")


def test_the_events_of_a_replay_end_with_its_last_state(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        replay_id = ask_for(operator).json()["replayId"]
        command = agent.read_command(stream.next()["data"])
        with operator.stream("GET", f"/api/v1/replays/{replay_id}/events") as watching:
            events = (line for line in watching.iter_lines() if line.startswith("data: "))
            seen = [msgspec.json.decode(next(events)[6:])["state"]]
            agent.say(replay_id, "delivered")
            seen.append(msgspec.json.decode(next(events)[6:])["state"])
            agent.run(command)
            seen += [msgspec.json.decode(one[6:])["state"] for one in events]
    assert seen == ["requested", "delivered", "completed"]


def test_the_calls_of_source_and_replay_are_compared(
    house: House, agent: Puppet, operator: httpx.Client, tmp_path: Path
) -> None:
    data = packed(record_run(tmp_path / "run"))
    source = exchange("ex-2", recording=named(data))
    assert agent.ingest(source, blobs=(data,)) == [{"exchangeId": "ex-2", "status": "stored"}]
    calls = operator.get("/api/v1/exchanges/ex-2/calls").json()["items"]
    assert "weather" in [one["operation"] for one in calls]
    assert operator.get("/api/v1/exchanges/ex-2/recording").content == data
    with agent.stream() as stream:
        replay_id = ask_for(operator, "ex-2").json()["replayId"]
        command = agent.read_command(stream.next()["data"])
        assert agent.source(replay_id).json()["recording"]["digest"] == named(data).digest
        path = f"/api/v1/agents/{agent.agent_id}/replays/{replay_id}/recording"
        assert agent.http.get(path).content == data
        agent.run(command)
    replay = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert replay["verdict"] == "diverged"  # it made none of the calls
    diff = operator.get(f"/api/v1/replays/{replay_id}/diff").json()
    assert diff["counts"]["removed"] == len(calls)


def test_a_replay_of_a_replay_is_one_deeper_and_both_hang_below_the_original(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        one = ask_for(operator).json()["replayId"]
        agent.run(agent.read_command(stream.next()["data"]))
        two = ask_for(operator, f"of-{one}").json()
        assert two["depth"] == 2
        agent.run(agent.read_command(stream.next()["data"]))
    tree = operator.get(f"/api/v1/exchanges/of-{two['replayId']}/lineage").json()
    assert tree["exchangeId"] == "ex-1"
    assert tree["replays"][0]["exchangeId"] == f"of-{one}"
    assert tree["replays"][0]["verdict"] == "identical"
    assert tree["replays"][0]["replays"][0]["exchangeId"] == f"of-{two['replayId']}"
    graph = operator.get("/api/v1/exchanges/ex-1/correlation").json()
    edges = [(one["kind"], one["source"], one["target"]) for one in graph["edges"]]
    assert ("replay_of", "ex-1", f"of-{one}") in edges


def test_two_unchanged_replays_teach_the_noise_of_a_route(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        ids = []
        for total in (11, 12, 13):
            ids.append(ask_for(operator).json()["replayId"])
            agent.run(agent.read_command(stream.next()["data"]), result=result(total))
            if len(ids) == 2:
                learnt = operator.post("/api/v1/noise/learn", json={"replays": ids})
                assert learnt.status_code == 200, learnt.text
    edited = ask_for(operator, patch=EDIT)
    again = operator.post("/api/v1/noise/learn", json={"replays": [ids[0], ids[0]]})
    assert again.status_code == 422
    open_one = {"replays": [ids[0], edited.json()["replayId"]]}
    assert operator.post("/api/v1/noise/learn", json=open_one).status_code == 409
    verdicts = [operator.get(f"/api/v1/replays/{one}").json()["verdict"] for one in ids]
    assert verdicts == ["diverged", "diverged", "equivalent"]
    rules = operator.get("/api/v1/noise", params={"app": "shop"}).json()["items"]
    assert [one["path"] for one in rules[0]["rules"]] == ["/result/body/total"]
    (changed,) = house.records("noise.changed")
    assert changed["subject"]["id"].startswith("shop ")
    assert changed["details"] == {"rules": "1"}


@pytest.mark.parametrize("text", ["{}", '[{"path": "/nowhere"}]', '[{"path": "/result", "x": 1}]'])
def test_rules_that_are_none_are_refused(operator: httpx.Client, text: str) -> None:
    body = {"app": "shop", "route": "orders", "rules": msgspec.json.decode(text)}
    assert operator.put("/api/v1/noise", json=body).status_code == 422
