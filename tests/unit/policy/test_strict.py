from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

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
        "src/reenact/policy/redaction/redactor/of/long/paths",
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


def _card(digits: str) -> str:
    """``digits`` and the check digit that they ask for."""
    return next(digits + str(last) for last in range(10) if _is_luhn(digits + str(last)))


def _is_luhn(digits: str) -> bool:
    doubled = [int(d) * (1 + place % 2) for place, d in enumerate(reversed(digits))]
    return sum(d // 10 + d % 10 for d in doubled) % 10 == 0


def _iban(country: str, account: str) -> str:
    digits = "".join(str(int(char, 36)) for char in f"{account}{country}00")
    return f"{country}{98 - int(digits) % 97:02}{account}"


CARDS = [
    _card("4" + "12345" * 2 + "1"),
    _card("51" + "0510" * 3 + "5"),
    _card("37828" + "2246310" + "00"),
]
CARDS += [_card("6" + "011" * 5 + "12")]
IBANS = [
    _iban("DE", "370400440532013000"),
    _iban("GB", "NWBK60161331926819"),
    _iban("NO", "86011117947"),
]


@pytest.mark.parametrize("card", CARDS)
def test_a_card_number_is_removed(card: str) -> None:
    strict = Redactor("strict")
    groups = " ".join(card[place : place + 4] for place in range(0, len(card), 4))
    for written in (card, groups, groups.replace(" ", "-")):
        assert strict.text(f"paid with {written}.") == f"paid with {PLACEHOLDER}."
        assert strict.text(strict.text(written)) == PLACEHOLDER
    assert strict.redact({"n": int(card)}).value == {"n": PLACEHOLDER}
    assert Redactor().text(card) == card


@pytest.mark.parametrize("iban", IBANS)
def test_an_account_number_is_removed(iban: str) -> None:
    strict = Redactor("strict")
    groups = " ".join(iban[place : place + 4] for place in range(0, len(iban), 4))
    for written in (iban, groups):
        assert strict.text(f"from {written} OK") == f"from {PLACEHOLDER} OK"
    assert Redactor().text(iban) == iban


def test_numbers_without_a_valid_check_digit_stay() -> None:
    strict = Redactor("strict")
    wrong = CARDS[0][:-1] + str((int(CARDS[0][-1]) + 1) % 10)
    for text in (
        wrong,
        "1700000000000",
        "2024-01-02 10:20:30",
        "0000000000000000",
        "DE00 3704 0044",
    ):
        assert strict.text(text) == text
    assert strict.redact({"id": int(CARDS[0])}).marks == ()


def test_a_number_in_groups_is_held_back_until_it_has_ended() -> None:
    from reenact.policy.redaction.redactor import Screen

    screen = Screen(Redactor("strict"))
    written = [
        screen.add(part) for part in (b"paid with ", b"4111 ", b"1111 ", b"1111 ", b"1111 now ")
    ]
    assert written == [10] * 5
