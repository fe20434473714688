from __future__ import annotations

import json
import re

import pytest

from reenact.policy.redaction.gate import Gate
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor
from reenact.policy.redaction.tokens import SHAPES
from tests.leak.planted import plant_shape
from tests.unit.policy.secrets_for_tests import FILLER, TOKENS


def _redacted(text: str) -> tuple[str, list[str]]:
    result = Redactor().redact({"text": text})
    return result.value["text"], [mark.rule for mark in result.marks]


def test_every_shape_has_an_example() -> None:
    assert sorted(TOKENS) == sorted(shape.id for shape in SHAPES)


@pytest.mark.parametrize("rule", sorted(TOKENS))
@pytest.mark.parametrize(
    "frame", ["{}", "a {} b", "x={}", '{{"k": "{}"}}', "l1\n{}\nl3", "\x1b[32m{}"]
)
def test_a_token_is_replaced_whole(rule: str, frame: str) -> None:
    new, _rules = _redacted(frame.format(TOKENS[rule]))
    assert PLACEHOLDER in new
    assert FILLER not in new
    assert "hunter2" not in new
    assert "MIIE" not in new
    assert not any(core in new for core in plant_shape(rule, "secrets for tests").cores)


@pytest.mark.parametrize("rule", sorted(TOKENS))
def test_the_mark_names_the_rule(rule: str) -> None:
    found = {one.rule for one in Redactor()._texts.tokens(TOKENS[rule])}
    assert rule in found


@pytest.mark.parametrize("rule", sorted(TOKENS))
@pytest.mark.parametrize("engine", ["hyperscan", "python"])
def test_the_gate_fires_for_every_shape(rule: str, engine: str) -> None:
    gate = Gate(engine=engine)  # type: ignore[arg-type]
    token = TOKENS[rule]
    for data in (token, json.dumps(token), json.dumps(json.dumps(token)), f"\x1b[1m{token}"):
        assert gate.suspects(data.encode())


RUNS = sorted(rule for rule, token in TOKENS.items() if re.fullmatch(r"[A-Za-z0-9_-]+", token))


@pytest.mark.parametrize("rule", RUNS)
def test_inside_a_longer_run_nothing_starts(rule: str) -> None:
    """A signature or an opaque id that happens to contain a prefix must survive."""
    text = "Zm9v" + TOKENS[rule] + "Zm9v"
    assert _redacted(text) == (text, [])


@pytest.mark.parametrize(
    "text",
    [
        "Bearer authentication is explained below",
        "the bearer of this letter",
        "Bearer {token} and Bearer $TOKEN and Bearer <token>",
        "a basic understanding of Basic English",
        "basic knowledge/skills",
        "task-oriented-dialogue-systems-are-fun, risk-adjusted-performance-2024",
        "sk-SK",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "AKIA is a prefix, and so is AIza",
        "ghp_short",
        "https://hooks.slack.com/",
        "call_" + "A1b2C3d4E5f6G7h8J9k0",
        "chatcmpl-" + "9xYzA1b2C3d4E5f6G7h8",
        "sha256:" + "0123456789abcdef" * 4,
        "123e4567-e89b-12d3-a456-426614174000",
        "http://localhost:8080/@scope/package",
        "git@github.com:owner/name.git and ssh://git@github.com/owner/name",
        "12:30:45 and 10:AA",
    ],
)
def test_lookalikes_stay(text: str) -> None:
    assert _redacted(text) == (text, [])


def test_opaque_ids_and_signatures_survive() -> None:
    value = {
        "id": "msg_01" + FILLER,
        "tool_call_id": "call_" + FILLER,
        "previous_response_id": "resp_" + "0123456789abcdef" * 3,
        "signature": "EqQB" + "CkYIBxgCKkDsk-" + FILLER * 8 + "==",
        "thought_signature": "CiQ" + ("A1_b-" * 40),
        "encrypted_content": "gAAAAABn" + FILLER * 20,
        "system_fingerprint": "fp_44709d6fcb",
    }
    result = Redactor().redact(value)
    assert result.value is value
    assert not Redactor().suspects(json.dumps(value, separators=(",", ":")).encode())


@pytest.mark.parametrize("blank", [" ", "\n", "\t", "\r\n", "  ", "+", "%20"])
def test_bearer_with_odd_blanks(blank: str) -> None:
    new, _ = _redacted(f"auth: bearer{blank}{FILLER}")
    assert FILLER not in new


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRI" + "VATE KEY-----\nMIIEabc\n",
        "-----BEGIN EC PRI" + "VATE KEY-----\\nMIIEabc\\nxyz",
        "-----BEGIN OPENSSH PRI" + "VATE KEY-----\r\nMIIEabc\r\n-----EN",
        "-----BEGIN RSA PRI" + "VATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,0A\n\nMIIEabc",
        "-----BEGIN+PRI" + "VATE+KEY-----%0AMIIEabc%0A",
    ],
)
def test_a_private_key_that_is_cut_off_or_escaped(text: str) -> None:
    new, rules = _redacted("key: " + text)
    assert "MIIE" not in new
    assert rules == ["shape.pem"]


def test_what_follows_a_private_key_stays() -> None:
    key = TOKENS["shape.pem"]
    assert _redacted(f"{key}; then text") == (f"{PLACEHOLDER}; then text", ["shape.pem"])
