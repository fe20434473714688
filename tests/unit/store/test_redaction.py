from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reenact.format.canonical import digest_bytes, exact
from reenact.format.event import Draft
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from reenact.store.payload_encoder import prepare
from reenact.store.sinks.base import Options
from reenact.store.verify import verify
from tests.unit.store.samples import datas, draft, record

SECRET = "hunter" + "2" * 20
REDACTOR = Redactor("default", declared=[SECRET])


def result(**data: Any) -> Draft:
    return draft("tool_result", {"callId": "c", "ok": True, **data})


def test_data_without_secrets_is_written_as_it_is() -> None:
    event = result(result={"text": "plain", "n": 1.0})
    assert prepare(event, REDACTOR).payload == exact(event.data)
    assert prepare(event, Redactor("none")).payload == exact(event.data)


def test_what_the_program_received_is_marked_and_kept_for_sealing() -> None:
    prepared = prepare(result(result=[f"it is {SECRET}"]), REDACTOR)
    assert SECRET.encode() not in prepared.payload
    assert b'"redacted":["$.result[0]"]' in prepared.payload
    assert [(mark.path, mark.original) for mark in prepared.received] == [
        ("$.result[0]", f"it is {SECRET}")
    ]


def test_what_the_program_sent_is_neither_marked_nor_kept() -> None:
    call = draft("tool_call", {"name": "t", "callId": "c", "args": [SECRET]})
    prepared = prepare(call, REDACTOR)
    assert prepared.payload == exact({"name": "t", "callId": "c", "args": [PLACEHOLDER]})
    assert prepared.received == ()


@pytest.mark.parametrize(
    "field, received", [("value", True), ("response", True), ("request", False), ("valued", False)]
)
def test_of_a_nondeterministic_event_only_the_answer_was_received(
    field: str, received: bool
) -> None:
    data = {"source": "network", "key": "k", "valueHash": "h", field: {"body": SECRET}}
    prepared = prepare(draft("nondeterministic", data), REDACTOR)
    assert bool(prepared.received) is received
    assert (b'"redacted":' in prepared.payload) is received


def test_marks_of_an_earlier_redaction_are_kept() -> None:
    event = result(result=[PLACEHOLDER, SECRET], redacted=["$.result[0]"])
    assert b'"redacted":["$.result[0]","$.result[1]"]' in prepare(event, REDACTOR).payload


@pytest.mark.parametrize("own", [True, "text", {"a": 1}, [["$.x"], {}]])
def test_a_field_of_the_programs_own_that_is_called_redacted_does_no_harm(own: Any) -> None:
    prepared = prepare(result(result=SECRET, redacted=own), REDACTOR)
    assert b'"redacted":["$.result"]' in prepared.payload


def test_a_payload_with_a_survivor_is_withheld_and_its_digest_kept(tmp_path: Path) -> None:
    """Keys of objects are never changed, so a secret there survives the exact pass."""
    said: list[str] = []
    key = "sha256:" + "a" * 64
    data = {"source": "network", "key": key, "valueHash": "h", "value": {SECRET: 1}}
    options = Options(redactor=REDACTOR, durability="none", warn=said.append)
    path = record(tmp_path / "c", [draft("nondeterministic", data), draft()], options)
    [withheld, after] = datas(path)
    payload = exact(data)
    assert withheld == {
        "key": key,
        "withheld": {
            "digest": digest_bytes(payload),
            "reason": withheld["withheld"]["reason"],
            "size": len(payload),
        },
    }
    assert "survived redaction" in withheld["withheld"]["reason"]
    assert after == {}
    everything = b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
    assert SECRET.encode() not in everything
    assert len(said) == 1
    assert SECRET not in said[0]
    assert verify(path).notes == (
        "1 payload(s) withheld, because secret-like text survived redaction",
    )


def test_a_withheld_key_is_kept_only_when_it_is_a_digest() -> None:
    data = {"key": f"sha256:{SECRET}", "value": {SECRET: 1}}
    prepared = prepare(draft("nondeterministic", data), REDACTOR)
    assert SECRET.encode() not in prepared.payload
    assert prepared.warning
