from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.policy.redaction import PLACEHOLDER, Redactor

P = PLACEHOLDER
RANDOM = "q9Zx3LmT7vB2" + "kR8wY5nC1dF6"
RANDOM_HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"


def _value(value: Any) -> Any:
    return Redactor("strict").redact(value).value


@pytest.mark.parametrize(
    "text,kept",
    [
        ("write to jane.doe+x@mail.example.org, please", f"write to {P}, please"),
        (f"key {RANDOM} end", f"key {P} end"),
        (f'{{"k": "{RANDOM_HEX}"}}', f'{{"k": "{P}"}}'),
    ],
)
def test_strict_adds_addresses_and_random_strings(text: str, kept: str) -> None:
    assert _value(text) == kept
    assert _value(kept) == kept
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "sha256:" + "0123456789abcdef" * 4,
        "123e4567-e89b-12d3-a456-426614174000",
        "call_" + RANDOM,
        "https://host/docs/getting-started/installation-guide/index",
        "this_is_a_rather_long_snake_case_identifier",
        "ThisIsARatherLongCamelCaseIdentifierName",
        "src/reenact/policy/redaction/of/long/paths",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "2024-01-01T00-00-00-backup-of-database",
        "@decorator and user at host",
        json.dumps({"id": RANDOM, "signature": RANDOM_HEX}),
    ],
)
def test_words_paths_digests_and_ids_stay(text: str) -> None:
    assert _value(text) == text


def test_protocol_ids_stay_at_their_names() -> None:
    value = {"id": RANDOM, "tool_call_id": RANDOM, "signature": RANDOM * 4, "note": RANDOM}
    assert _value(value) == {**value, "note": P}


@pytest.mark.parametrize(
    "headers,kept",
    [
        (
            [["Content-Type", "a/b"], ["X-Internal", "v"], ["Authorization", "w"]],
            [["Content-Type", "a/b"], ["X-Internal", P], ["Authorization", P]],
        ),
        ({"date": "now", "x-odd": "v"}, {"date": "now", "x-odd": P}),
        (
            [{"name": "Accept", "value": "*/*"}, {"name": "X-Odd", "value": "v"}],
            [{"name": "Accept", "value": "*/*"}, {"name": "X-Odd", "value": P}],
        ),
    ],
)
def test_headers_off_the_list_go(headers: Any, kept: Any) -> None:
    result = Redactor("strict").redact({"response": {"headers": headers}})
    assert result.value == {"response": {"headers": kept}}
    assert "header" in {mark.rule for mark in result.marks}
    assert Redactor("strict").redact(result.value).marks == ()


def test_headers_that_are_compared_stay() -> None:
    headers = [["X-Tenant", "acme"], ["x-tenant", "a b@example.org"], ["X-Other", "acme"]]
    redactor = Redactor("strict").comparing(["X-TENANT"])
    kept = redactor.redact({"headers": headers}).value["headers"]
    assert kept == [["X-Tenant", "acme"], ["x-tenant", f"a {P}"], ["X-Other", P]]
    assert redactor.under("default").under("strict").redact({"headers": headers}).value == {
        "headers": kept
    }


def test_a_secret_stays_one_when_it_is_compared() -> None:
    redactor = Redactor("strict").comparing(["Authorization"])
    assert redactor.redact({"headers": {"Authorization": "x"}}).value == {
        "headers": {"Authorization": P}
    }


def test_strict_never_trusts_the_gate() -> None:
    assert Redactor("strict").suspects(b'{"a":1}')
