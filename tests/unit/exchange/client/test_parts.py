"""Small parts: addresses, keys, waiting, notices, judgements."""

from __future__ import annotations

import pickle
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.audit.keys import Signer
from reenact.errors import UsageError
from reenact.exchange.client.address import Secret, parse_address
from reenact.exchange.client.command_journal import KnownReplay
from reenact.exchange.client.commands import Forged, Unreadable, check_command, read_command
from reenact.exchange.client.interface import Refusal
from reenact.exchange.client.limits import CLOCKS_DIFFER, Limits
from reenact.exchange.client.workers import BackOff, Notices, random_fraction
from reenact.exchange.command_signature import sign, signed_bytes, verify, verify_document
from reenact.exchange.model import Command, Payload

SIGNER = Signer("example.com/commands", bytes([1]) * 32)
OTHER = Signer("example.com/commands", bytes([2]) * 32)


def a_command(**changes: Any) -> Command:
    values: dict[str, Any] = {
        "command_id": "cmd-1",
        "replay_id": "rp-1",
        "tenant": "acme",
        "agent_id": "agt",
        "issued_at": 1_000,
        "expires_at": 2_000,
        "nonce": "n-1",
    }
    return sign(Command(**{**values, **changes}), SIGNER)


# Signatures


def test_a_command_is_signed_over_its_canonical_form() -> None:
    command = a_command()
    assert signed_bytes(msgspec.to_builtins(command)) == (
        b'reenact command 1\n{"agentId":"agt","boundaries":"recorded","commandId":"cmd-1",'
        b'"deadline":0,"depth":1,"environmentVariables":"current","expiresAt":2000,"issuedAt":1000,"modifiedPayload":null,'
        b'"nonce":"n-1","payloadDigest":"","replayId":"rp-1","revision":"","routeId":"",'
        b'"sourceExchangeId":"","strict":false,"tenant":"acme","traceParent":"","type":"replay",'
        b'"v":1}'
    )
    assert verify(command, SIGNER.key)
    assert not verify(command, OTHER.key)
    assert sign(command, SIGNER) == command


@pytest.mark.parametrize(
    "changes",
    [
        {"replay_id": "rp-2"},
        {"modified_payload": Payload(properties={"amount": 5})},
        {"boundaries": "live"},
        {"expires_at": 9_000},
        {"signature": ""},
        {"signature": "not base64"},
        {"signature": "AAAA"},
    ],
)
def test_a_command_that_was_changed_is_not_signed(changes: dict[str, Any]) -> None:
    assert not verify(msgspec.structs.replace(a_command(), **changes), SIGNER.key)


def test_fields_of_a_younger_server_are_signed_too() -> None:
    document = {**msgspec.to_builtins(a_command()), "colour": "red"}
    document.pop("signature")
    document["signature"] = b64encode(SIGNER.sign(signed_bytes(document))).decode()
    data = msgspec.json.encode(document).decode()
    read, command = read_command(data)
    assert verify_document(read, SIGNER.key)
    assert command.replay_id == "rp-1"
    assert not verify_document({**read, "colour": "blue"}, SIGNER.key)


def test_defaults_may_be_spelled_out() -> None:
    document = {**msgspec.to_builtins(a_command()), "strict": False, "revision": ""}
    document["signature"] = b64encode(SIGNER.sign(signed_bytes(document))).decode()
    assert verify_document(document, SIGNER.key)


@given(st.binary(max_size=100))
def test_no_bytes_break_the_verifier(data: bytes) -> None:
    assert not verify_document({"signature": data.decode("latin-1"), "n": "\ud800"}, SIGNER.key)


# Judgements


def judged(command: Command, **facts: Any) -> Forged | Refusal | None:
    document = msgspec.to_builtins(command)
    values: dict[str, Any] = {
        "key": SIGNER.key,
        "tenant": "acme",
        "agent_id": "agt",
        "now": 1_500,
        "known": None,
        "nonce_used_by": None,
    }
    return check_command(document, command, **{**values, **facts})


def code_of(found: Forged | Refusal | None) -> str | None:
    return None if found is None else found.code


KNOWN = KnownReplay("cmd-1", 2_000)


@pytest.mark.parametrize(
    "changes, facts, code",
    [
        ({}, {}, None),
        ({}, {"key": OTHER.key, "known": KNOWN}, "signature_invalid"),
        ({"tenant": "other"}, {}, "wrong_agent"),
        ({"agent_id": "other"}, {}, "wrong_agent"),
        ({}, {"now": 2_000 + CLOCKS_DIFFER}, None),
        ({}, {"now": 2_001 + CLOCKS_DIFFER}, "expired"),
        ({}, {"now": 10**12, "known": KNOWN}, None),
        ({"deadline": 1_400}, {}, "expired"),
        ({"deadline": 1_400, "type": "cancel"}, {}, None),
        ({}, {"nonce_used_by": "cmd-1", "known": KNOWN}, None),
        ({}, {"nonce_used_by": "cmd-2"}, "nonce_reused"),
        ({}, {"nonce_used_by": "cmd-2", "known": KNOWN}, "nonce_reused"),
    ],
)
def test_a_command_is_judged(
    changes: dict[str, Any], facts: dict[str, Any], code: str | None
) -> None:
    assert code_of(judged(a_command(**changes), **facts)) == code


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"v": 1, "nonce": 5}', "{" * 10_000, "\ud800"])
def test_what_is_no_command_is_not_read(data: str) -> None:
    with pytest.raises(Unreadable):
        read_command(data)


# Waiting


def test_waiting_doubles_up_to_a_limit() -> None:
    waits = BackOff(Limits(), lambda: 0.0)
    assert [waits.failed() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    waits.succeeded()
    assert waits.failed() == 1
    assert waits.failed(30.0) == 30
    assert waits.failed(10**9) == 3_600
    assert waits.refused() == 300


@given(st.integers(0, 2_000), st.floats(0, 1, exclude_max=True))
def test_chance_takes_at_most_a_half(failures: int, chance: float) -> None:
    waits, most = BackOff(Limits(), lambda: chance), BackOff(Limits(), lambda: 0.0)
    for _ in range(failures % 50):
        waits.failed()
        most.failed()
    usual = most.failed()
    assert usual / 2 <= waits.failed() <= usual


def test_chance_is_below_one() -> None:
    assert all(0 <= random_fraction() < 1 for _ in range(100))


# Notices


def test_a_warning_is_given_once_until_all_is_well() -> None:
    said: list[str] = []
    notices = Notices(said.append)
    notices.warn("a", "one")
    notices.warn("a", "two")
    notices.warn("b", "three")
    notices.note("c", "four")
    assert (said, notices.last) == (["one", "three"], "four")
    notices.well("c")
    notices.well("b")
    assert notices.last == "two"
    notices.well("a")
    notices.warn("a", "five")
    assert said == ["one", "three", "five"]
    notices.well("a")
    assert notices.last == ""


# Addresses and keys


@pytest.mark.parametrize(
    "text, address",
    [
        ("https://reenact.example", "https://reenact.example:443"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/a/b/", "http://[::1]:8080/a/b"),
    ],
)
def test_an_address_is_read(text: str, address: str) -> None:
    assert str(parse_address(text)) == address


@pytest.mark.parametrize(
    "text, private",
    [
        ("https://reenact.example", True),
        ("http://localhost:1", True),
        ("http://[::1]:1", True),
        ("http://reenact.example", False),
        ("http://localhost.example", False),
    ],
)
def test_who_can_read_along(text: str, private: bool) -> None:
    assert parse_address(text).is_private is private


def test_a_secret_is_shown_nowhere() -> None:
    text = "rnk_agent_" + "s" * 20
    secret = Secret(text)
    assert secret.reveal() == text
    assert text not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(UsageError) as raised:
        Secret(text + "\r\nX: y")
    assert text not in str(raised.value)
