"""Secrets that an agent did not take out: the server stores none of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import reenact
from reenact.exchange.model import Body, Change, ErrorFacts, Payload, Processor, Trace
from reenact.format.event import Draft
from reenact.format.manifest import Seed
from reenact.store.pack import unpack
from reenact.store.sinks.directory import DirectorySink
from tests.integration.small import write_small
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, ask_for, exchange, named, packed, silent

TOKEN = "-".join(["sk", "proj", "Zx81" * 10])
WORD = "hunter2" + "hunter3"
BYTES = {"Content-Type": "application/octet-stream"}


def everything(house: House) -> bytes:
    """All that the server has written: the database, and the blobs, unpacked."""
    found = b""
    for file in sorted(house.server.data.rglob("*")):
        if not file.is_file():
            continue
        found += file.read_bytes()
        try:
            target = file.with_name(f"{file.name}.unpacked")
            unpack(file, target)
        except reenact.ReenactError:
            continue
        found += b"".join(one.read_bytes() for one in target.rglob("*") if one.is_file())
    return found


def leaky(path: Path) -> bytes:
    """A recording of an agent that redacts nothing."""
    data = {"name": "f", "args": {"password": WORD, "text": f"key {TOKEN}"}, "callId": "c"}
    write_small(path, [Draft(type="tool_call", data=data, ts=1)])
    return packed(path)


def test_recording_with_secrets_is_leaky(tmp_path: Path) -> None:
    """Otherwise the tests below would prove nothing."""
    unpacked = tmp_path / "again"
    (tmp_path / "packed").write_bytes(leaky(tmp_path / "run"))
    unpack(tmp_path / "packed", unpacked)
    assert TOKEN.encode() in (unpacked / "events.jsonl").read_bytes()


def test_secrets_of_a_foreign_agent_are_not_stored(
    house: House, agent: Puppet, operator: httpx.Client, tmp_path: Path
) -> None:
    data = leaky(tmp_path / "run")
    body = Body(type="json", text=f'{{"password": "{WORD}", "amount": 5}}')
    step = Processor(
        processor_id="p",
        seq=1,
        changes=(Change(op="add", path="/properties/token", after=TOKEN),),
        input={"password": WORD},
        error=ErrorFacts(type="E", message=f"cannot use {TOKEN}"),
    )
    sent = exchange(
        "ex-9",
        start=Payload(headers=(("Authorization", f"Bearer {TOKEN}"),), body=body),
        result=Payload(body=Body(type="text", text=f"token={TOKEN}")),
        error=ErrorFacts(type="E", message=f"password={WORD}"),
        processors=(step,),
        correlation_id=TOKEN,
        recording=named(data),
    )
    assert agent.ingest(sent, blobs=(data,)) == [{"exchangeId": "ex-9", "status": "stored"}]
    found = operator.get("/api/v1/exchanges/ex-9").json()
    assert set(found["redacted"]) == {"/headers/authorization", "/body/password"}
    assert '"amount": 5' in found["start"]["body"]["text"]
    # The same is the same again, and what it made is found under its new digest.
    assert agent.ingest(sent, blobs=(data,)) == [{"exchangeId": "ex-9", "status": "duplicate"}]
    assert found["recording"]["digest"] != named(data).digest
    stored = everything(house)
    assert TOKEN.encode() not in stored
    assert WORD.encode() not in stored
    page = house.client(house.key("viewer")).get("/api/v1/exchanges/ex-9")
    assert TOKEN not in page.text


def _start(**body: Any) -> dict[str, Any]:
    return {"start": Payload(body=Body(**body))}


def _step(**changes: Any) -> dict[str, Any]:
    return {"processors": (Processor(**{"processor_id": "p", "seq": 1, **changes}),)}


URL = f"postgres://ada:{WORD}@host.example/db"
FIELDS: dict[str, dict[str, Any]] = {
    "route": {"route_id": f"POST /{TOKEN}"},
    "revision": {"revision": TOKEN},
    "code version": {"code_version": TOKEN},
    "redacted": {"redacted": (f"/body/{TOKEN}",)},
    "reason why it cannot be replayed": {"not_replayable": TOKEN},
    "content type": _start(type="text", text="x", content_type=f"text/x; a={TOKEN}"),
    "text of no body": _start(type="none", text=TOKEN, base64=TOKEN),
    "base64 of JSON": _start(type="json", text="{}", base64=TOKEN),
    "text of bytes": _start(type="bytes", base64="QUJD", text=TOKEN),
    "name of a header": {"start": Payload(headers=((TOKEN, "1"),))},
    "name of a property": {"start": Payload(properties={TOKEN: 1})},
    "processor": _step(processor_id=TOKEN),
    "branch": _step(branch=TOKEN),
    "lane": _step(lane=TOKEN),
    "path of a change": _step(changes=(Change(op="add", path=f"/body/{TOKEN}", after=1),)),
    "URL in a path": _step(
        changes=(Change(op="add", path="/body/" + URL.replace("/", "~1"), after=1),)
    ),
    "trace state": {"trace": Trace(trace_id="1" * 32, span_id="2" * 16, state=TOKEN)},
    "content hash": {"recording": msgspec.structs.replace(named(silent()), content_hash=TOKEN)},
}


@pytest.mark.parametrize("field", sorted(FIELDS))
def test_secret_in_any_field_of_an_exchange_is_not_stored(
    agent: Puppet, operator: httpx.Client, field: str
) -> None:
    sent = exchange("ex-9", **FIELDS[field])
    assert [one["status"] for one in agent.ingest(sent, blobs=(silent(),))] == ["stored"]
    # Documents are stored compressed: this reads them as they are.
    found = operator.get("/api/v1/exchanges/ex-9")
    assert found.status_code == 200
    assert TOKEN not in found.text
    assert WORD not in found.text


@pytest.mark.parametrize("change", [{"exchange_id": TOKEN}, {"agent_id": TOKEN}])
def test_secret_in_an_id_is_refused(agent: Puppet, change: dict[str, str]) -> None:
    sent = msgspec.structs.replace(exchange("ex-9"), **change)
    (answer,) = agent.ingest(sent)
    assert (answer["status"], answer["code"]) == ("refused", "exchange_invalid")


def test_secrets_in_a_registration_are_not_stored(house: House, agent: Puppet) -> None:
    answer = agent.register(
        name=TOKEN,
        version=f"1.0 {TOKEN}",
        routes=[{"routeId": f"GET /{TOKEN}", "revision": TOKEN, "processors": [TOKEN]}],
        containment={"drivers": [{"name": TOKEN}], "scratch": [f"/tmp/{TOKEN}"]},
    )
    assert answer.status_code == 200, answer.text
    assert agent.register(agentId=TOKEN).status_code == 422
    assert TOKEN.encode() not in everything(house)


def _manifest_with(**changes: Any) -> Any:
    def leak(monkeypatch: pytest.MonkeyPatch) -> None:
        start = DirectorySink.start

        def leaky_start(sink: DirectorySink, seed: Seed) -> None:
            start(sink, msgspec.structs.replace(seed, **changes))

        monkeypatch.setattr(DirectorySink, "start", leaky_start)

    return leak


@pytest.mark.parametrize(
    "leak",
    [
        _manifest_with(run_id=TOKEN),
        _manifest_with(environment={"note": TOKEN}),
        _manifest_with(extra={"later": {"password": WORD}}),
    ],
    ids=["run", "environment", "extra"],
)
def test_secret_in_the_manifest_of_a_recording_is_not_stored(
    house: House, agent: Puppet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leak: Any
) -> None:
    with monkeypatch.context() as patched:
        leak(patched)
        write_small(tmp_path / "run")
        data = packed(tmp_path / "run")
    agent.ingest(exchange("ex-9", recording=named(data)), blobs=(data,))
    pusher = house.client(house.key("replayer"))
    assert pusher.post("/api/v1/captures", content=data, headers=BYTES).status_code == 201
    stored = everything(house)
    assert TOKEN.encode() not in stored
    assert WORD.encode() not in stored


def test_secret_in_an_unknown_field_of_an_event_is_not_stored(
    house: House, agent: Puppet, tmp_path: Path
) -> None:
    draft = Draft(
        type="tool_call",
        data={"name": "f", "args": {}, "callId": "c"},
        ts=1,
        extra={"later": {"note": TOKEN}},
    )
    write_small(tmp_path / "run", [draft])
    data = packed(tmp_path / "run")
    agent.ingest(exchange("ex-9", recording=named(data)), blobs=(data,))
    assert TOKEN.encode() not in everything(house)


def test_clean_exchange_is_stored_as_it_was_sent(agent: Puppet, operator: httpx.Client) -> None:
    sent = exchange("ex-9", result=Payload(body=Body(type="json", text='{"a":  1}')))
    agent.ingest(sent)
    found = operator.get("/api/v1/exchanges/ex-9").json()
    for name in ("start", "result", "recording"):
        assert found[name] == msgspec.json.decode(msgspec.json.encode(getattr(sent, name)))


def test_secret_in_what_is_no_recording_is_refused(agent: Puppet) -> None:
    data = f"not a recording, {TOKEN}".encode()
    (answer,) = agent.ingest(exchange("ex-9", recording=named(data)), blobs=(data,))
    assert (answer["status"], answer["code"]) == ("refused", "exchange_invalid")


def test_secrets_of_a_pushed_capture_are_not_stored(house: House, tmp_path: Path) -> None:
    pusher = house.client(house.key("replayer"))
    data = leaky(tmp_path / "run")
    first = pusher.post("/api/v1/captures", content=data, headers=BYTES)
    again = pusher.post("/api/v1/captures", content=data, headers=BYTES)
    assert (first.status_code, again.status_code) == (201, 200), first.text
    assert first.json() == again.json()
    (tmp_path / "pulled").write_bytes(
        pusher.get(f"/api/v1/captures/{first.json()['captureId']}").content
    )
    report = unpack(tmp_path / "pulled", tmp_path / "again")
    assert report.manifest.integrity.content_hash == first.json()["contentHash"]
    stored = everything(house)
    assert TOKEN.encode() not in stored
    assert WORD.encode() not in stored


def test_secrets_in_a_reason_are_not_stored(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    reason = f"retry with {TOKEN}, password={WORD}"
    asked = ask_for(operator, reason=reason)
    assert asked.status_code == 202, asked.text
    denied = ask_for(operator, reason=reason, target={"agentId": "nobody"})
    assert denied.status_code >= 400
    replay = operator.get(f"/api/v1/replays/{asked.json()['replayId']}").json()
    assert replay["reason"].startswith("retry with ***REDACTED***")
    reasons = [one["reason"] for one in house.records() if one.get("reason")]
    assert len(reasons) == 2
    said = " ".join(reasons) + replay["reason"]
    assert TOKEN not in said
    assert WORD not in said


def test_secret_in_what_an_agent_reports_is_not_stored(
    house: House, agent: Puppet, operator: httpx.Client
) -> None:
    with agent.stream() as stream:
        replay_id = ask_for(operator).json()["replayId"]
        stream.next()
        agent.say(replay_id, "delivered")
        agent.say(replay_id, "failed", code="internal", message=f"no access with {TOKEN}")
    replay = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert replay["message"] == "no access with ***REDACTED***"


# What was replayed is what was commanded

EDIT = [{"op": "replace", "path": "/body/amount", "value": 7}]


def other_body(payload: Payload) -> Payload:
    body = msgspec.structs.replace(payload.body, text='{"amount": 8}')
    return msgspec.structs.replace(payload, body=body)


def more_headers(payload: Payload) -> Payload:
    return msgspec.structs.replace(payload, headers=(*payload.headers, ("x-admin", "1")))


def other_properties(payload: Payload) -> Payload:
    return msgspec.structs.replace(payload, properties={**payload.properties, "more": True})


def nothing(payload: Payload) -> Payload:
    return Payload()


def hidden_body(payload: Payload) -> Payload:
    body = msgspec.structs.replace(payload.body, text='"***REDACTED***"')
    return msgspec.structs.replace(payload, body=body)


@pytest.mark.parametrize(
    "change", [other_body, more_headers, other_properties, nothing, hidden_body]
)
def test_result_of_another_start_payload_is_refused(
    house: House, agent: Puppet, operator: httpx.Client, change: Any
) -> None:
    with agent.stream() as stream:
        replay_id = ask_for(operator, patch=EDIT).json()["replayId"]
        command = agent.read_command(stream.next()["data"])
        agent.say(replay_id, "delivered")
        agent.say(replay_id, "running")
        made = agent.outcome(command)
        lie = exchange(
            made.exchange_id, start=change(made.start), replay=made.replay, agent_id=made.agent_id
        )
        (answer,) = agent.ingest(lie)
        assert (answer["status"], answer["code"]) == ("refused", "start_mismatch")
        (late,) = agent.ingest(made)
        assert late["code"] == "replay_unknown"
    replay = operator.get(f"/api/v1/replays/{replay_id}").json()
    assert (replay["state"], replay["code"]) == ("failed", "start_mismatch")
    assert "not the commanded one" in replay["message"]
    (record,) = house.records("replay.finished")
    assert (record["outcome"], record["code"]) == ("failed", "start_mismatch")
    assert operator.get(f"/api/v1/exchanges/{made.exchange_id}").status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        (("authorization", "***REDACTED***"),),
        (("Authorization", "***REDACTED:0123456789ab***"), ("content-length", "99")),
    ],
)
def test_redacted_and_travelling_headers_are_not_compared(
    agent: Puppet, operator: httpx.Client, headers: Any
) -> None:
    agent.register(capabilities=["replay", "cancel", "credentials"])
    edit = [{"op": "add", "path": "/headers/authorization", "value": f"Bearer {TOKEN}"}]
    with agent.stream() as stream:
        ask_for(operator, patch=edit)
        command = agent.read_command(stream.next()["data"])
        made = agent.outcome(command)
        kept = tuple(one for one in made.start.headers if one[0].lower() != "authorization")
        clean = msgspec.structs.replace(made.start, headers=(*kept, *headers))
        again = exchange(made.exchange_id, start=clean, replay=made.replay, agent_id=made.agent_id)
        assert [one["status"] for one in agent.ingest(again)] == ["stored"]
