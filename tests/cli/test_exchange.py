"""``reenact exchange`` and ``reenact agents``, against a real server and an agent that obeys."""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reenact.audit.replay_proof import parse_replay_proof
from reenact.cli._parser import command_parser
from reenact.exchange.model import STATES, VERDICTS, Change, ErrorFacts, Payload, Processor
from tests.cli.conftest import Run
from tests.cli.samples import record_run
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, exchange, named, packed, result

STEPS = (
    Processor(processor_id="items", seq=1, kind="loop", duration=3.0),
    Processor(
        processor_id="price",
        seq=2,
        parent_seq=1,
        iteration=0,
        duration=1.25,
        changes=(Change(op="add", path="/body/total", after=10),),
    ),
    Processor(
        processor_id="ship",
        seq=3,
        duration=0.5,
        status="failed",
        error=ErrorFacts(type="shop.NoStock", message="none left"),
    ),
)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A server; whoever runs a command may replay in staging and read the audit log."""
    with running(tmp_path / "data") as house:
        house.environment("staging")
        monkeypatch.setenv("REENACT_SERVER", house.url)
        monkeypatch.setenv("REENACT_API_KEY", house.key("replayer", "audit:read"))
        yield house


@pytest.fixture
def agent(house: House) -> Puppet:
    agent = Puppet(house)
    assert agent.register().status_code == 200
    agent.ingest(exchange(processors=STEPS))
    return agent


@contextmanager
def obeying(agent: Puppet, *answers: Callable[[Puppet, Any], object]) -> Iterator[None]:
    """Meanwhile the agent gets commands, and does with each what the next of ``answers`` says."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for answer in answers:
                answer(agent, agent.read_command(stream.next()["data"]))
        except BaseException as error:
            failures.append(error)

    with agent.stream() as stream:
        thread = threading.Thread(target=work)
        thread.start()
        yield
        thread.join(60)
    assert not failures
    assert not thread.is_alive()


def _run(**changes: Any) -> Callable[[Puppet, Any], object]:
    def run(agent: Puppet, command: Any) -> object:
        agent.say(command.replay_id, "delivered")
        agent.say(command.replay_id, "running")
        return agent.run(command, **{"processors": STEPS, **changes})

    return run


def _refuse(agent: Puppet, command: Any) -> object:
    return agent.say(command.replay_id, "refused", code="busy", message="too much to do")


def test_ls_lists_what_was_recorded(agent: Puppet, run: Run) -> None:
    agent.ingest(exchange("ex-2", status="failed", error=ErrorFacts(type="shop.NoStock")))
    ran = run("exchange", "ls")
    assert (ran.code, ran.err) == (0, "")
    heading, *lines = ran.out.splitlines()
    assert heading.split() == "started exchange app environment route status http ms".split()
    assert sorted(line.split()[3] for line in lines) == ["ex-1", "ex-2"]
    (line,) = run("exchange", "ls", "--status", "failed", "--json").json_lines()
    assert (line["exchangeId"], line["errorType"]) == ("ex-2", "shop.NoStock")
    assert run("exchange", "ls", "--app", "other").err == "reenact: no such exchange\n"
    assert len(run("exchange", "ls", "--limit", 1).out.splitlines()) == 2


def _http(status: int) -> Payload:
    return Payload(properties={"http.status": status})


def test_http_status_is_listed_and_shown(agent: Puppet, run: Run) -> None:
    agent.ingest(
        exchange("ex-404", result=_http(404)),
        exchange("ex-500", result=_http(500), status="failed"),
    )
    rows = {
        line.split()[3]: line.split()[7:9] for line in run("exchange", "ls").out.splitlines()[1:]
    }
    assert rows == {
        "ex-1": ["completed", "200"],
        "ex-404": ["completed", "404"],
        "ex-500": ["failed", "500"],
    }
    found = {one["exchangeId"]: one for one in run("exchange", "ls", "--json").json_lines()}
    assert found["ex-404"]["httpStatus"] == 404
    assert run("exchange", "show", "ex-404").out.startswith("ex-404  completed with HTTP 404 in")


def test_replay_that_fails_like_its_source_says_that_it_failed(agent: Puppet, run: Run) -> None:
    failing: dict[str, Any] = {"status": "failed", "result": _http(503), "processors": ()}
    agent.ingest(exchange("ex-503", **failing))
    with obeying(agent, _run(**failing)):
        ran = run("exchange", "replay", "ex-503")
    assert ran.out.startswith("identical")
    assert "  status  failed 503 -> failed 503\n" in ran.out
    _, line = run("exchange", "replays").out.splitlines()
    assert "completed  identical  failed 503" in line
    assert "completed, identical, failed with HTTP 503" in run("exchange", "show", "ex-503").out


def test_replays_are_not_listed_among_exchanges_unless_asked_for(agent: Puppet, run: Run) -> None:
    with obeying(agent, _run()):
        replay = run("exchange", "replay", "ex-1", "--json").json()["replayId"]

    def listed(*words: str) -> list[str]:
        ran = run("exchange", "ls", "--json", *words)
        return sorted(one["exchangeId"] for one in ran.json_lines())

    assert listed() == listed("--replays", "none") == ["ex-1"]
    assert listed("--replays", "only") == [f"of-{replay}"]
    assert listed("--replays", "any") == ["ex-1", f"of-{replay}"]
    assert run("exchange", "ls", "--replays", "any", "--save", "both").code == 0
    plan = run("batch", "plan", "--saved", "both", "--json").json()["plan"]
    assert plan["exchanges"] == 2
    assert run("batch", "plan", "--app", "shop", "--json").json()["plan"]["exchanges"] == 1


def test_show_draws_the_processors_and_their_changes(
    agent: Puppet, run: Run, tmp_path: Path
) -> None:
    data = packed(record_run(tmp_path / "calls"))
    agent.ingest(exchange("ex-2", processors=STEPS, recording=named(data)), blobs=(data,))
    ran = run("exchange", "show", "ex-2", "--calls")
    assert ran.code == 0
    lines = [line.rstrip() for line in ran.out.splitlines()]
    assert lines[0] == "ex-2  completed with HTTP 200 in 1.5 ms"
    assert "     1  items (loop)  3.0 ms" in lines
    assert "     2    price[0]  1.2 ms" in lines
    assert "            + /body/total = 10" in lines
    assert "!    3  ship  0.5 ms" in lines
    assert "          shop.NoStock: none left" in lines
    assert "start   POST /orders" in lines
    assert any("GET https://weather.example/bern -> 200" in line for line in lines)
    found = run("exchange", "show", "ex-1", "--json").json()
    assert found["exchangeId"] == "ex-1"
    assert "calls" not in found


def test_replay_prints_progress_then_the_difference(agent: Puppet, run: Run) -> None:
    with obeying(agent, _run(result=result(14))):
        ran = run("exchange", "replay", "ex-1", "--set", "body.amount=7", "--reason", "a try")
    assert ran.code == 1
    states = [line.split()[-1] for line in ran.err.splitlines()]
    assert (states[0], states[-1]) == ("requested", "completed")
    lines = ran.out.splitlines()
    assert lines[0] == "diverged: 2 changed"
    assert "  first   the result: /body/total is 14, and was 10" in lines
    assert "  ~ /body/amount" in lines
    assert "3 processors, 3 the same" in lines


def test_replay_unchanged_is_identical(agent: Puppet, run: Run) -> None:
    with obeying(agent, _run()):
        ran = run("exchange", "replay", "ex-1", "--json")
    assert ran.code == 0
    found = ran.json()
    assert found["verdict"] == "identical"
    assert found["exchangeId"] == f"of-{found['replayId']}"


def test_replay_with_a_patch_and_a_payload(agent: Puppet, run: Run, tmp_path: Path) -> None:
    patch, payload = tmp_path / "patch.json", tmp_path / "payload.json"
    patch.write_text('[{"op": "replace", "path": "/body/amount", "value": 8}]', "utf-8")
    payload.write_text('{"body": {"type": "text", "text": "hello"}}', "utf-8")
    with obeying(agent, _run(), _run()):
        first = run("exchange", "replay", "ex-1", "--patch", patch, "--json").json()
        second = run("exchange", "replay", "ex-1", "--payload", payload, "--json").json()
    assert [(one["path"], one["after"]) for one in first["start"]] == [("/body/amount", 8)]
    assert [(one["path"], one["after"]) for one in second["start"]] == [("/body", "hello")]
    ran = run("exchange", "replay", "ex-1", "--payload", payload, "--set", "body.a=1")
    assert (ran.code, ran.hint) == (2, "use one or the other")


def test_replay_without_waiting(agent: Puppet, run: Run) -> None:
    with agent.stream() as stream:
        ran = run("exchange", "replay", "ex-1", "--no-wait")
        assert ran.code == 0
        replay_id = ran.out.strip()
        assert agent.read_command(stream.next()["data"]).replay_id == replay_id
        cancelled = run("exchange", "cancel", replay_id)
    assert cancelled.out == f"replay {replay_id} is requested, and its cancellation was requested\n"


@pytest.mark.parametrize("words, used", [((), "current"), (("recorded",), "recorded")])
def test_replay_requests_the_environment_variables(
    agent: Puppet, run: Run, words: tuple[str, ...], used: str
) -> None:
    option = ["--environment-variables", *words] if words else []
    with agent.stream() as stream:
        assert run("exchange", "replay", "ex-1", "--no-wait", *option).code == 0
        command = agent.read_command(stream.next()["data"])
    assert command.environment_variables == used


def test_replay_in_an_app_with_undeclared_drivers_is_refused(agent: Puppet, run: Run) -> None:
    agent.register(containment={"drivers": [{"name": "psycopg"}]})
    ran = run("exchange", "replay", "ex-1")
    assert ran.code == 4
    assert "has not declared how a replay treats them: psycopg" in ran.err
    assert ran.hint == 'add to the app: Agent(…, drivers={"psycopg": "refuse"})'


def test_agents_are_listed_with_their_drivers(agent: Puppet, run: Run) -> None:
    drivers = [{"name": "psycopg"}, {"name": "redis", "treatment": "allow"}]
    agent.register(containment={"drivers": drivers})
    assert "psycopg undeclared, redis allow" in run("agents").out


def test_cancelling_ends_the_wait(agent: Puppet, run: Run) -> None:
    def cancel(agent: Puppet, command: Any) -> object:
        return agent.say(command.replay_id, "cancelled")

    with obeying(agent, cancel):
        ran = run("exchange", "replay", "ex-1")
    assert ran.code == 4
    assert "is cancelled" in ran.err


def test_replay_that_the_agent_refuses_ends_with_4(agent: Puppet, run: Run) -> None:
    with obeying(agent, _refuse):
        ran = run("exchange", "replay", "ex-1")
    assert (ran.code, ran.out) == (4, "")
    assert "refused: busy: too much to do" in ran.err
    assert ran.hint == "wait until its other replays have ended"


@pytest.mark.parametrize(
    "words, code, problem",
    [
        (["replay", "nobody"], 2, "not_found"),
        (["show", "nobody"], 2, "not_found"),
        (["replay", "ex-1", "--boundaries", "live"], 4, "live_permission_required"),
        (["replay", "ex-1", "--set", "body.amount.x=1"], 2, "payload_invalid"),
        (["replay", "ex-1", "--agent", "agent-9"], 4, "agent_offline"),
        (["cancel", "rpl_none"], 2, "not_found"),
    ],
)
def test_what_the_server_refuses_has_its_code_and_exit_code(
    words: list[str], code: int, problem: str, agent: Puppet, run: Run
) -> None:
    with agent.stream():
        ran = run("exchange", *words, "--json")
    assert ran.code == code
    assert ran.json()["error"]["fields"]["problem"] == problem
    assert ran.hint
    assert "whoever runs the server" not in ran.hint


def test_production_needs_its_own_permission(house: House, run: Run) -> None:
    agent = Puppet(house, agent_id="agent-p", environment="production")
    agent.register()
    agent.ingest(exchange("ex-p"))
    with agent.stream():
        ran = run("exchange", "replay", "ex-p", "--reason", "because", "--json")
    assert ran.code == 4
    assert ran.json()["error"]["fields"]["problem"] == "production_permission_required"


def test_diff_of_two_and_of_a_replay_with_its_source(agent: Puppet, run: Run) -> None:
    agent.ingest(exchange("ex-2", result=result(11), processors=STEPS))
    ran = run("exchange", "diff", "ex-1", "ex-2", "--json")
    assert (ran.code, ran.json()["verdict"]) == (1, "diverged")
    assert run("exchange", "diff", "ex-1", "ex-1").code == 0
    with obeying(agent, _run(status="failed", error=ErrorFacts(type="shop.Late"))):
        replayed = run("exchange", "replay", "ex-1", "--json").json()
    for name in (replayed["replayId"], replayed["exchangeId"]):
        ran = run("exchange", "diff", name)
        assert ran.code == 1
        assert ran.out.startswith("regressed: ")
        assert "  status  completed 200 -> failed 200\n" in ran.out
    ran = run("exchange", "diff", "ex-1")
    assert (ran.code, ran.hint) == (2, "reenact exchange diff ex-1 OTHER")


def test_replays_are_listed_and_found_by_what_came_of_them(agent: Puppet, run: Run) -> None:
    agent.ingest(exchange("ex-2", started_at=2_000_000_000_000, processors=STEPS))
    with obeying(agent, _run(), _run(result=result(14)), _refuse):
        same = run("exchange", "replay", "ex-1", "--json").json()["replayId"]
        changed = run("exchange", "replay", "ex-2", "--reason", "a try", "--json").json()[
            "replayId"
        ]
        run("exchange", "replay", "ex-2")
    ran = run("exchange", "replays", "--verdict", "diverged")
    assert (ran.code, ran.err) == (0, "")
    heading, line = ran.out.splitlines()
    assert heading.split() == [
        *"requested replay exchange app environment route state verdict ended by reason".split(),
        *("first", "difference"),
    ]
    assert line.split()[3:] == [
        *(changed, "ex-2", "shop", "staging", "orders", "completed", "diverged"),
        *("completed", "200", "user", "a", "try"),
        *"the result: /body/total differs".split(),
    ]

    def found(*words: object) -> set[str]:
        lines = run("exchange", "replays", *words, "--json").json_lines()
        return {one["replayId"] if one["verdict"] else one["state"] for one in lines}

    assert found() == {same, changed, "refused"}
    assert found("ex-1") == {same}
    assert found("last") == {changed, "refused"}
    assert found("--state", "refused") == {"refused"}
    assert found("--route", "orders", "--verdict", "identical") == {same}
    everything = ("--app", "shop", "--environment", "staging", "--route", "orders")
    assert found(*everything, "--by", "user ", "--since", "2026-01-01") == {
        same,
        changed,
        "refused",
    }
    for words in (
        *(("--app", "other"), ("--environment", "live"), ("--route", "others")),
        *(("--by", "somebody"), ("--until", "2026-01-01"), ("--verdict", "fixed")),
    ):
        ran = run("exchange", "replays", *words)
        assert (ran.out, ran.err) == ("", "reenact: no such replay\n"), words
    ran = run("exchange", "replays", "--verdict", "better")
    assert ran.code == 2
    assert "better" in ran.err


def test_the_command_line_knows_every_state_and_verdict() -> None:
    group = command_parser("exchange")
    assert group is not None
    (actions,) = (one for one in group._actions if isinstance(one, argparse._SubParsersAction))
    options = {one.dest: one.choices for one in actions.choices["replays"]._actions}
    assert (options["state"], options["verdict"]) == (STATES, VERDICTS)


def test_learn_makes_rules_of_what_differs_by_itself(agent: Puppet, run: Run) -> None:
    with obeying(agent, _run(result=result(1)), _run(result=result(2))):
        ran = run("exchange", "learn", "ex-1")
    assert ran.code == 0
    assert ran.out == "shop orders: 1 noise rule now\n  present    /result/body/total\n"
    with obeying(agent, _run(result=result(3))):
        ran = run("exchange", "replay", "ex-1")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "equivalent: 1 noise")


def test_learn_from_what_was_not_completed_is_an_error(agent: Puppet, run: Run) -> None:
    with obeying(agent, _refuse):
        ran = run("exchange", "learn", "ex-1")
    assert (ran.code, ran.out) == (2, "")
    assert "is refused" in ran.err


def test_prove_writes_what_audit_verify_verifies(
    house: House, agent: Puppet, run: Run, tmp_path: Path
) -> None:
    with obeying(agent, _run(result=result(14))):
        replayed = run("exchange", "replay", "ex-1", "--set", "body.amount=7", "--json").json()
    proof = tmp_path / "proof.json"
    ran = run("exchange", "prove", replayed["replayId"], "-o", proof)
    assert ran.code == 0
    assert parse_replay_proof(proof.read_bytes()).replay_id == replayed["replayId"]
    key = house.server.auditor.key("default").to_text()
    ran = run("audit", "verify", proof, "--key", key)
    assert ran.code == 0
    assert ran.out.startswith(f"replay {replayed['replayId']} of ex-1: verified\n")
    assert "proven: the output in this file is the output of the replay" in ran.out
    lines = ran.out.splitlines()
    assert '  recorded POST /orders {"amount": 5}' in lines
    assert any(line.startswith("  replayed POST /orders {") and ": 7" in line for line in lines)
    assert '  output   200 {"total": 14}' in lines
    shown = run("audit", "verify", proof, "--key", key, "--json").json()["values"]
    assert shown["output"]["status"] == "completed"
    whole = json.loads(proof.read_bytes())
    whole["values"][0]["value"] = {"amount": 1_000}
    proof.write_text(json.dumps(whole), "utf-8")
    ran = run("audit", "verify", proof, "--key", key, "--json")
    assert (ran.code, ran.json()["error"]["code"]) == (3, "audit.invalid")
    assert run("audit", "verify", proof).code == 2


def test_last_is_the_newest_exchange_and_the_newest_replay(
    agent: Puppet, run: Run, tmp_path: Path
) -> None:
    agent.ingest(exchange("ex-2", started_at=2_000_000_000_000, processors=STEPS))
    assert run("exchange", "show", "last", "--json").json()["exchangeId"] == "ex-2"
    with obeying(agent, _run(started_at=2_000_000_000_001)):
        replayed = run("exchange", "replay", "last", "--set", "body.amount=7", "--json").json()
    replay_id = replayed["replayId"]
    assert run("exchange", "show", "last", "--json").json()["exchangeId"] == "ex-2"
    assert run("exchange", "diff", "last", "--json").json()["start"] == replayed["start"]
    assert run("exchange", "diff", "ex-1", "last").code == 0
    proof = tmp_path / "proof.json"
    assert run("exchange", "prove", "last", "-o", proof).code == 0
    assert parse_replay_proof(proof.read_bytes()).replay_id == replay_id
    assert run("exchange", "cancel", "last").out == f"replay {replay_id} is completed\n"
    with obeying(agent, _run(), _run()):
        assert run("exchange", "learn", "last", "--json").json()["route"] == "orders"


def test_last_where_there_is_nothing(house: House, run: Run) -> None:
    assert run("exchange", "show", "last").hint == "check that an app is connected: reenact agents"
    ran = run("exchange", "diff", "last")
    assert (ran.code, ran.hint) == (2, "reenact exchange replay ID")


def test_agents_are_listed(agent: Puppet, run: Run) -> None:
    with agent.stream():
        ran = run("agents")
        (line,) = run("agents", "--json").json_lines()
    assert ran.code == 0
    heading, row = ran.out.splitlines()
    assert heading.split()[:4] == ["agent", "app", "environment", "version"]
    assert row.split()[:3] == ["agent-1", "shop", "staging"]
    assert line["state"] == "online"
