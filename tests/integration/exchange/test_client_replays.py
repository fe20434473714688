"""Commands that come from the server: obeyed once, or refused with the reason."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact.audit.keys import Signer
from reenact.exchange.client.interface import Refusal, ReplayCancelled, ReplayJob
from reenact.exchange.command_signature import sign
from reenact.exchange.model import Payload, RecordingRef, ReplaySource
from reenact.exchange.payload import payload_digest
from reenact.format.canonical import digest_bytes
from reenact.store.pack import pack
from tests.integration.exchange.client_helpers import (
    CountingRunner,
    a_capture,
    has_started,
    limits,
    linked,
)
from tests.integration.exchange.protocol_server import PATIENCE, Fault, ProtocolServer

THIEF = Signer("test.example/commands", bytes([7]) * 32)


NO_BODY = {"type": "none", "text": "", "base64": "", "contentType": "", "clipped": None}


def agent_of(server: ProtocolServer) -> str:
    server.until(lambda: server.streams)
    return str(server.registrations[0]["agentId"])


def with_recording(server: ProtocolServer, replay: str, folder: Path) -> None:
    """The source of ``replay`` has a recording, which is in ``folder`` as well."""
    pack(a_capture(folder / "source"), folder / "packed")
    content = (folder / "packed").read_bytes()
    ref = RecordingRef(digest=digest_bytes(content), size=len(content))
    server.sources[replay] = ReplaySource(payload=Payload(properties={"n": 2}), recording=ref)
    server.recordings[replay] = content


def test_a_replay_is_run_and_its_exchange_comes_back(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path / "data", runner):
        with_recording(server, "rp-1", tmp_path)
        server.give(server.order(agent_of(server), "rp-1"))
        server.until(lambda: "ex-of-rp-1" in server.exchanges)
        server.until_state("rp-1", "running")
    exchange = server.exchanges["ex-of-rp-1"]
    assert exchange["replay"]["replayId"] == "rp-1"
    assert exchange["start"] == {"headers": [], "body": NO_BODY, "properties": {"n": 2}}
    assert exchange["recording"]["digest"] in server.blobs
    assert server.says("rp-1") == [("delivered", ""), ("running", "")]
    assert runner.captures == [["events.jsonl", "manifest.json"]]
    assert not any(place.exists() for place in runner.places)


def test_a_live_replay_needs_no_recording(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path / "data", runner):
        with_recording(server, "rp-1", tmp_path)
        server.give(server.order(agent_of(server), "rp-1", boundaries="live"))
        server.until(lambda: server.exchanges)
    assert runner.captures == [None]
    assert not [path for _, path in server.requests if path.endswith("/recording")]


def test_an_edited_payload_is_the_one_that_is_run(tmp_path: Path) -> None:
    edited = Payload(properties={"n": 5})
    with ProtocolServer() as server, linked(server, tmp_path):
        command = server.order(
            agent_of(server), "rp-1", modified_payload=edited, payload_digest=payload_digest(edited)
        )
        server.give(command)
        server.until(lambda: server.exchanges)
    start = server.exchanges["ex-of-rp-1"]["start"]
    assert start == {"headers": [], "body": NO_BODY, "properties": {"n": 5}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "expired": ({"expires_at": 1_700_000_000_000}, "expired"),
    "too late": ({"deadline": 1_700_000_000_000}, "expired"),
    "another tenant": ({"tenant": "other"}, "wrong_agent"),
    "another agent": ({"agent_id": "other"}, "wrong_agent"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_command_that_is_not_for_now_and_here_is_refused(tmp_path: Path, name: str) -> None:
    changes, code = REFUSED[name]
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        server.give(server.order(agent_of(server), "rp-1", **changes))
        server.until(lambda: server.states)
        assert server.says("rp-1") == [("refused", code)]
    assert (runner.ran, runner.checked) == ([], [])


def test_a_command_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    runner, warnings = CountingRunner(), list[str]()
    with ProtocolServer() as server, linked(server, tmp_path, runner, warnings=warnings):
        good = server.order(agent_of(server), "rp-0")
        forged = [
            msgspec.structs.replace(good, replay_id="rp-1", signature=""),
            sign(msgspec.structs.replace(good, replay_id="rp-2"), THIEF),
            msgspec.structs.replace(good, replay_id="rp-3"),
            msgspec.structs.replace(good, replay_id="rp-4", signature="AAAA"),
        ]
        for command in forged:
            server.give(command)
        server.until(lambda: len(server.states) == 4)
        assert {state[1:] for state in server.states} == {("refused", "signature_invalid")}
    assert runner.ran == []
    assert len(warnings) == 1


def test_a_pinned_key_is_the_only_one(tmp_path: Path) -> None:
    runner, warnings = CountingRunner(), list[str]()
    pinned = THIEF.key.to_text()
    options: Any = {"command_key": pinned, "warnings": warnings}
    with ProtocolServer() as server, linked(server, tmp_path, runner, **options):
        server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "refused")
        server.give(sign(server.order(agent_of(server), "rp-2"), THIEF))
        server.until_state("rp-2", "running")
    assert runner.ran == ["rp-2"]
    assert any("pinned" in text for text in warnings)


def test_a_nonce_is_good_for_one_command(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        agent = agent_of(server)
        first = server.give(server.order(agent, "rp-1"))
        server.until_state("rp-1", "running")
        server.give(server.order(agent, "rp-2", nonce=first.nonce))
        server.until_state("rp-2", "refused")
        assert server.says("rp-2") == [("refused", "nonce_reused")]
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        server.give(server.order(agent_of(server), "rp-3", nonce=first.nonce))
        server.until_state("rp-3", "refused")
    assert runner.ran == ["rp-1"]


def test_a_command_that_comes_often_is_obeyed_once(tmp_path: Path) -> None:
    runner, go = CountingRunner(), threading.Event()
    runner.act = lambda job: None if go.wait(PATIENCE) else pytest.fail("nobody let it go on")
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        command = server.give(server.order(agent_of(server), "rp-1"))
        has_started(runner)
        for _ in range(3):
            server.give(command)
        server.give(server.order(agent_of(server), "rp-1"))  # another command for the same replay
        server.until(lambda: len(server.says("rp-1")) == 6)
        go.set()
        server.until(lambda: server.exchanges)
        server.give(command)
        server.until(lambda: len(server.says("rp-1")) == 7)
    assert server.says("rp-1") == [("delivered", "")] + [("running", "")] * 6
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        agent_of(server)
        server.give(command)
        server.until_state("rp-1", "running")
    assert runner.ran == ["rp-1"]


def test_what_was_refused_is_refused_again(tmp_path: Path) -> None:
    runner = CountingRunner()
    runner.refusal = Refusal("route_unknown", "there is no such route")
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        command = server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "refused")
        runner.refusal = None
        server.give(command)
        server.until(lambda: len(server.says("rp-1")) == 3)
        assert server.says("rp-1")[1:] == [("refused", "route_unknown")] * 2
    assert runner.ran == []


SOURCES: dict[str, list[Fault]] = {
    "gone": [Fault(404)],
    "never there": [Fault(500)] * 1_000,
    "not a source": [Fault(200, body=b"[]")],
    "cut": [Fault(cut=60)] * 1_000,
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_that_cannot_be_had_fails_the_replay(tmp_path: Path, name: str) -> None:
    runner = CountingRunner()
    few = limits(turn_within=1.0)
    with ProtocolServer() as server, linked(server, tmp_path, runner, limits=few):
        server.fail("source", *SOURCES[name])
        server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "failed")
        assert server.says("rp-1")[-1] == ("failed", "source_unavailable")
    assert runner.ran == []


@pytest.mark.parametrize(
    "fault", [Fault(500), Fault(503, headers={"Retry-After": "0"}), Fault(cut=60)]
)
def test_a_source_that_cannot_be_had_for_a_while_is_waited_for(
    tmp_path: Path, fault: Fault
) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        server.fail("source", *[fault] * 12)
        server.give(server.order(agent_of(server), "rp-1"))
        server.until(lambda: "ex-of-rp-1" in server.exchanges)
    assert runner.ran == ["rp-1"]


def test_a_replay_that_waits_for_its_source_can_be_cancelled(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        server.fail("source", *[Fault(500)] * 100_000)
        order = server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "delivered")
        server.give(server.order(order.agent_id, "rp-1", type="cancel"))
        server.until_state("rp-1", "cancelled")
    assert runner.ran == []


def test_what_has_no_recording_is_not_replayed_from_it(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        server.give(server.order(agent_of(server), "rp-1", boundaries="recorded"))
        server.until_state("rp-1", "refused")
        assert server.says("rp-1")[-1] == ("refused", "no_recording")
    assert runner.ran == []


def test_a_payload_that_was_not_signed_is_not_run(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        command = server.order(agent_of(server), "rp-1")
        server.sources["rp-1"] = ReplaySource(payload=Payload(properties={"n": 666}))
        server.give(command)
        server.until_state("rp-1", "failed")
    assert runner.ran == []


@pytest.mark.parametrize("content", [b"something else", b"", b"x" * 100_000])
def test_a_recording_with_another_digest_is_not_used(tmp_path: Path, content: bytes) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path / "data", runner):
        with_recording(server, "rp-1", tmp_path)
        server.recordings["rp-1"] = content
        server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "failed")
        assert server.says("rp-1")[-1] == ("failed", "source_unavailable")
    assert runner.ran == []
    assert not list((tmp_path / "data").glob("spool/1/replays/*"))


def wait_for_the_end(job: ReplayJob) -> None:
    assert job.cancelled.wait(PATIENCE)
    raise ReplayCancelled


def test_a_replay_is_cancelled(tmp_path: Path) -> None:
    runner = CountingRunner()
    runner.act = wait_for_the_end
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        agent = agent_of(server)
        server.give(server.order(agent, "rp-1"))
        has_started(runner)
        server.give(server.order(agent, "rp-1", type="cancel"))
        server.until_state("rp-1", "cancelled")
    assert "ex-of-rp-1" not in server.exchanges


def test_a_cancel_that_comes_first_counts(tmp_path: Path) -> None:
    runner = CountingRunner()
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        agent = agent_of(server)
        server.give(server.order(agent, "rp-1", type="cancel"))
        server.give(server.order(agent, "rp-1"))
        server.until(lambda: len(server.says("rp-1")) == 2)
        assert server.says("rp-1") == [("cancelled", "")] * 2
    assert runner.ran == []


def test_a_cancel_must_be_signed_too(tmp_path: Path) -> None:
    runner, go = CountingRunner(), threading.Event()
    runner.act = lambda job: None if go.wait(PATIENCE) else pytest.fail("nobody let it go on")
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        agent = agent_of(server)
        server.give(server.order(agent, "rp-1"))
        has_started(runner)
        server.give(sign(server.order(agent, "rp-1", type="cancel"), THIEF))
        server.give(server.order(agent, "rp-2"))
        server.until_state("rp-2", "running")
        go.set()
        server.until(lambda: len(server.exchanges) == 2)
    assert [state for state, _ in server.says("rp-1")] == ["delivered", "running"]


@pytest.mark.parametrize("issued, clock", [(1_000, 1_000), (3_600_000, 0)], ids=["right", "behind"])
def test_a_deadline_ends_a_replay(issued: int, clock: int, tmp_path: Path) -> None:
    """By the time that it took, whatever the app's clock says meanwhile; and one that is behind gives
    no more of it than the server."""
    runner = CountingRunner()
    runner.act = wait_for_the_end
    given = {"issued_at": issued, "deadline": issued + 300}
    with ProtocolServer() as server, linked(server, tmp_path, runner, now=lambda: clock):
        server.give(server.order(agent_of(server), "rp-1", **given))
        server.until_state("rp-1", "cancelled")
        assert server.says("rp-1")[-1] == ("cancelled", "deadline")


def test_only_so_many_run_and_wait(tmp_path: Path) -> None:
    runner, go = CountingRunner(), threading.Event()
    runner.act = lambda job: None if go.wait(PATIENCE) else pytest.fail("nobody let it go on")
    few = limits(replays=1, waiting=1)
    with ProtocolServer() as server, linked(server, tmp_path, runner, limits=few):
        agent = agent_of(server)
        server.give(server.order(agent, "rp-1"))
        has_started(runner)
        server.give(server.order(agent, "rp-2"))
        server.give(server.order(agent, "rp-3"))
        server.until_state("rp-3", "refused")
        assert server.says("rp-3") == [("refused", "busy")]
        assert runner.ran == ["rp-1"]
        go.set()
        server.until(lambda: len(server.exchanges) == 2)
    assert runner.ran == ["rp-1", "rp-2"]


def test_a_replay_that_waits_too_long_is_refused(tmp_path: Path) -> None:
    runner = CountingRunner()
    with (
        ProtocolServer() as server,
        linked(server, tmp_path, runner, limits=limits(turn_within=0.0)),
    ):
        server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "refused")
        assert server.says("rp-1")[-1] == ("refused", "busy")
    assert runner.ran == []


@pytest.mark.parametrize("error", [ValueError("a secret"), SystemExit(3), KeyboardInterrupt()])
def test_a_runner_that_breaks_fails_the_replay_only(tmp_path: Path, error: BaseException) -> None:
    runner = CountingRunner()

    def act(job: ReplayJob) -> None:
        if job.command.replay_id == "rp-1":
            raise error

    runner.act = act
    with ProtocolServer() as server, linked(server, tmp_path, runner):
        server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "failed")
        server.give(server.order(agent_of(server), "rp-2"))
        server.until(lambda: server.exchanges)
    assert server.says("rp-1")[-1] == ("failed", "internal")


def test_closing_ends_what_runs_and_says_so(tmp_path: Path) -> None:
    runner = CountingRunner()
    runner.act = wait_for_the_end
    with ProtocolServer() as server:
        with linked(server, tmp_path, runner):
            server.give(server.order(agent_of(server), "rp-1"))
            has_started(runner)
        assert server.says("rp-1")[-1] == ("failed", "agent_restarted")


def test_what_is_no_command_is_passed_over(tmp_path: Path) -> None:
    runner, warnings = CountingRunner(), list[str]()
    with ProtocolServer() as server, linked(server, tmp_path, runner, warnings=warnings):
        agent = agent_of(server)
        server.send("replay", "not JSON")
        server.send("replay", "[]")
        server.send("replay", '{"v": 1}')
        server.send("weather", "{}")
        server.give(server.order(agent, "rp-0", v=2))
        server.give(server.order(agent, "rp-1"))
        server.until(lambda: server.exchanges)
    assert runner.ran == ["rp-1"]
    assert len(warnings) == 1


def test_states_reach_a_server_that_stumbles(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path):
        server.fail("state", Fault(500), Fault(cut=0), Fault(503, headers={"Retry-After": "0"}))
        server.give(server.order(agent_of(server), "rp-1"))
        server.until_state("rp-1", "running")
        server.until(lambda: server.exchanges)
    assert server.says("rp-1") == [("delivered", ""), ("running", "")]
