"""When two requests are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from reenact.errors import PolicyInvalid, ValueRefused
from reenact.format.canonical import digest
from reenact.policy.matching import Comparer, Rules, ignored_paths
from reenact.policy.redaction.redactor import Redactor
from reenact.policy.volatile import settles
from tests.unit.policy.secrets_for_tests import TOKENS

UUID = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
OTHER_UUID = "f47ac10b-58cc-4372-a567-0e02b2c3d479"


def comparer(redactor: Redactor | None = None, /, **rules: tuple[str, ...]) -> Comparer:
    return Comparer(Rules(**rules), redactor or Redactor())


def test_without_rules_and_secrets_the_key_is_the_digest_of_the_request() -> None:
    request = {"name": "search", "args": {"q": "x", "n": 1.0, "raw": b"\xff"}}
    assert comparer().key(request) == digest(request)
    assert comparer().normal(request) is request


def test_what_json_cannot_hold_is_refused_with_its_path() -> None:
    with pytest.raises(ValueRefused, match=r"\$\.args"):
        comparer().key({"args": float("nan")})


def test_hash_seed_does_not_matter() -> None:
    program = (
        "from reenact.policy.matching import Comparer, Rules\n"
        "from reenact.policy.redaction.redactor import Redactor\n"
        "rules = Rules(('$..id',), ('x-a', 'x-b'), ('t', 'u'), ('uuids', 'durations'))\n"
        "request = {'url': 'http://h/?t=1&a=2', 'headers': [['X-B', '1']], 'password': 'p'}\n"
        "print(Comparer(rules, Redactor()).key(request))\n"
    )
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(keys) == 1


# Secrets


@pytest.mark.parametrize("salt", [None, b"salt"])
@pytest.mark.parametrize("profile", ["default", "strict"])
def test_other_credentials_have_the_same_key(profile: Any, salt: bytes | None) -> None:
    one = comparer(Redactor(profile, salt=salt))

    def request(credential: str) -> dict[str, Any]:
        return {
            "url": f"https://example.com/?api_key={credential}",
            "headers": [["Authorization", f"Bearer {credential}"], ["Accept", "*/*"]],
            "body": b'{"client_secret":"%b"}' % credential.encode(),
        }

    mine, theirs = request("A1b2C3d4E5f6"), request("Zz9Zz9Zz9Zz9")
    assert one.key(mine) == one.key(theirs)
    assert one.normal(mine)["headers"][0] == ["Authorization", "***REDACTED***"]


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
@pytest.mark.parametrize("salt", [None, b"salt"])
def test_the_request_as_recorded_has_the_key_of_the_request_as_asked(
    token: str, salt: bytes | None
) -> None:
    redactor = Redactor("strict", salt=salt)
    one = comparer(redactor, volatile=("uuids", "timestamps", "durations"))
    asked = {"text": f"use {token} at 2024-05-01T10:00:00Z for {UUID}", "password": UUID}
    assert one.key(redactor.redact(asked).value) == one.key(asked)


@pytest.mark.parametrize("secret", ["***REDACTED:0123456789ab***", b"***REDACTED:0123456789ab***"])
def test_a_pseudonym_is_compared_as_the_placeholder(secret: str | bytes) -> None:
    one = comparer()
    constant: Any = "***REDACTED***" if isinstance(secret, str) else b"***REDACTED***"
    assert one.key({"a": secret}) == one.key({"a": constant})


def test_profile_none_compares_everything() -> None:
    one = comparer(Redactor("none"))
    assert one.key({"password": "a"}) != one.key({"password": "b"})


# Paths

REQUEST = {
    "id": 1,
    "messages": [{"id": "a", "text": "x"}, {"id": "b", "text": "y"}],
    "a b": {"id": {"id": 2}},
}


@pytest.mark.parametrize(
    "path, left",
    [
        ("$.id", {**REQUEST, "id": ...}),
        ("$['id']", {**REQUEST, "id": ...}),
        ('$["a b"]', {**REQUEST, "a b": ...}),
        (r"$['\u0061 b'].id.id", {**REQUEST, "a b": {"id": {}}}),
        ("$.messages[0]", {**REQUEST, "messages": [None, {"id": "b", "text": "y"}]}),
        ("$.messages[0].id", {**REQUEST, "messages": [{"text": "x"}, {"id": "b", "text": "y"}]}),
        ("$.messages[*].id", {**REQUEST, "messages": [{"text": "x"}, {"text": "y"}]}),
        ("$.messages[*].*", {**REQUEST, "messages": [{}, {}]}),
        ("$.messages.*", {**REQUEST, "messages": [None, None]}),
        ("$.*.id", {**REQUEST, "a b": {}}),
        ("$..id", {"messages": [{"text": "x"}, {"text": "y"}], "a b": {}}),
        ("$..id.id", {**REQUEST, "a b": {"id": {}}}),
        ("$..[0]", {**REQUEST, "messages": [None, {"id": "b", "text": "y"}]}),
        ("$..*", {}),
        ("$.*", {}),
        ("$[0]", REQUEST),
        ("$.messages.id", REQUEST),
        ("$.messages[7].id", REQUEST),
        ("$['messages']['0']", REQUEST),
        ("$.id.id.id", REQUEST),
    ],
)
def test_a_path_takes_out_what_it_says(path: str, left: dict[str, Any]) -> None:
    expected = {name: item for name, item in left.items() if item is not ...}
    assert comparer(ignore_paths=(path,)).normal(REQUEST) == expected


def test_an_ignored_member_may_be_missing_and_an_ignored_item_may_not() -> None:
    member, item = comparer(ignore_paths=("$.id",)), comparer(ignore_paths=("$.list[0]",))
    assert member.key({"id": 1, "a": 2}) == member.key({"a": 2})
    assert item.key({"list": [1, 2]}) == item.key({"list": [9, 2]})
    assert item.key({"list": [1, 2]}) != item.key({"list": [2]})


def test_the_request_is_left_as_it_was() -> None:
    request = {"a": [{"id": 1}], "headers": {"X": "1"}, "url": "http://h/?q=1", "took": 5}
    rules = Rules(("$..id",), ("x",), ("q",), ("durations",))
    before = repr(request)
    assert Comparer(rules, Redactor()).normal(request) == {
        "a": [{}],
        "headers": {},
        "url": "http://h/",
        "took": 0,
    }
    assert repr(request) == before


@pytest.mark.parametrize(
    "path, message",
    [
        ("id", "a path begins with '$' or a slash, this one is 'id'"),
        ("", "a path begins with '$' or a slash, this one is ''"),
        ("$", "the path '$' is the complete request, so nothing would be compared"),
        ("$.a.", "cannot read the path '$.a.' at character 3"),
        ("$.a[-1]", "cannot read the path '$.a[-1]' at character 3"),
        ("$.a[?@.b]", "cannot read the path '$.a[?@.b]' at character 3"),
        ("$.a[1:2]", "cannot read the path '$.a[1:2]' at character 3"),
        ("$...a", "cannot read the path '$...a' at character 1"),
        ("$..", "cannot read the path '$..' at character 1"),
        ("$['a]", 'cannot read the path "$[\'a]" at character 1'),
    ],
)
def test_a_bad_path_is_refused_with_its_place(path: str, message: str) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        comparer(ignore_paths=("$.fine", path))
    assert caught.value.message == message
    assert caught.value.place == "$.ignore.paths[1]"
    assert caught.value.hint.startswith(("e.g. ", "give the part"))


def test_a_deep_path_through_200_levels() -> None:
    value: Any = {"id": 1}
    for _ in range(198):
        value = {"a": value}
    left = ignored_paths(("$..id", "$..a.b", "$..a..c")).strip(value)
    for _ in range(198):
        left = left["a"]
    assert left == {}


# Headers and parameters


@pytest.mark.parametrize(
    "headers, left",
    [
        ([["X-Id", "1"], ["Accept", "a"], ["x-id", "2"]], [["Accept", "a"]]),
        ([("x-ID", "1")], []),
        ([[b"X-Id", b"1"], [b"A", b"b"]], [[b"A", b"b"]]),
        ({"X-ID": "1", "Accept": "a"}, {"Accept": "a"}),
        ("x-id: 1", "x-id: 1"),
        (["x-id", "1", "2"], ["x-id", "1", "2"]),
        (None, None),
    ],
)
def test_ignored_headers(headers: Any, left: Any) -> None:
    one = comparer(ignore_headers=("X-id",))
    assert one.normal({"deep": [{"headers": headers}]}) == {"deep": [{"headers": left}]}
    assert one.normal({"other": headers}) == {"other": headers}


@pytest.mark.parametrize(
    "url, left",
    [
        ("https://h/p?t=1", "https://h/p"),
        ("https://h/p?a=1&t=1&b=2#f", "https://h/p?a=1&b=2#f"),
        ("https://h/p?t&t=2&a=t", "https://h/p?a=t"),
        ("https://h/p?%74=1&T=2", "https://h/p?T=2"),
        ("https://h/p?x+y=1&a=1", "https://h/p?a=1"),
        ("https://h/t?a=1#?t=1", "https://h/t?a=1#?t=1"),
        ("https://h/t", "https://h/t"),
        ("?t=1", ""),
    ],
)
def test_ignored_parameters_in_a_url(url: str, left: str) -> None:
    one = comparer(ignore_query=("t", "x y"))
    assert one.normal({"request": {"url": url}}) == {"request": {"url": left}}
    assert one.normal({"text": url}) == {"text": url}


def test_ignored_parameters_in_pairs() -> None:
    one = comparer(ignore_query=("t",))
    assert one.normal({"query": [["t", "1"], ["a", "2"]]}) == {"query": [["a", "2"]]}
    assert one.normal({"query": {"t": "1", "a": "2"}}) == {"query": {"a": "2"}}


# Volatile


@pytest.mark.parametrize(
    "kind, text, left",
    [
        ("timestamps", "at 2024-05-01T10:11:12.123456+02:00.", "at <timestamp>."),
        ("timestamps", "2024-05-01 10:11", "<timestamp>"),
        ("timestamps", "2024-05-01t10:11:12z", "<timestamp>"),
        ("timestamps", "?t=2024-05-01T10%3A11%3A12%2B02%3A00&b", "?t=<timestamp>&b"),
        ("timestamps", "Wed, 01 May 2024 10:11:12 GMT", "<timestamp>"),
        ("timestamps", "1 May 2024 10:11:12 +0200", "<timestamp>"),
        ("timestamps", "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"),
        ("timestamps", "Today is 2024-05-01.", "Today is 2024-05-01."),
        ("timestamps", "12024-05-01T10:11:12", "12024-05-01T10:11:12"),
        ("timestamps", '{"ts": 1714558272, "n": 1}', '{"ts": 0, "n": 1}'),
        ("timestamps", '{\\"startedAt\\":1714558272.5}', '{\\"startedAt\\":0}'),
        ("timestamps", "{'fetched_at': 1}", "{'fetched_at': 0}"),
        ("uuids", f"msg_{UUID}!", "msg_<uuid>!"),
        ("uuids", UUID.upper(), "<uuid>"),
        ("uuids", UUID.replace("-", ""), UUID.replace("-", "")),
        ("uuids", f"a{UUID}", f"a{UUID}"),
        (
            "durations",
            "took 12.3ms (5 seconds, 3s, 7 µs)",
            "took <duration> (<duration>, <duration>, <duration>)",
        ),
        ("durations", "0:00:01.500000 and PT1.5S", "<duration> and <duration>"),
        ("durations", "5 stones, 3 sheep, v1.2.3s, a5ms", "5 stones, 3 sheep, v1.2.3s, a5ms"),
        ("durations", '{"durationMs": 12.5, "tookMs":3}', '{"durationMs": 0, "tookMs":0}'),
        ("durations", "2024-05-01T10:11:12.5Z", "2024-05-01T10:11:12.5Z"),
    ],
)
def test_volatile_texts(kind: str, text: str, left: str) -> None:
    one = comparer(volatile=(kind,))
    assert one.normal({"a": [text]}) == {"a": [left]}
    assert one.normal({"a": text.encode()}) == {"a": left.encode()}


def test_volatile_numbers_have_a_name_that_says_so() -> None:
    request = {
        "ts": 5,
        "timestamp_ms": 5,
        "startedAt": 1.5,
        "fetched-at": [1, 2],
        "tookMs": 5,
        "elapsed": 0.25,
        "Duration_Ms": 5,
        "parts": 5,
        "lots": 5,
        "latencyMs": True,
        "mistook": 5,
        "format": 5,
    }
    assert comparer(volatile=("timestamps", "durations")).normal(request) == {
        "ts": 0,
        "timestamp_ms": 0,
        "startedAt": 0,
        "fetched-at": [0, 0],
        "tookMs": 0,
        "elapsed": 0,
        "Duration_Ms": 0,
        "parts": 5,
        "lots": 5,
        "latencyMs": True,
        "mistook": 5,
        "format": 5,
    }


def test_bytes_that_are_no_text_are_left_alone() -> None:
    value = {"a": b"\xff 12ms"}
    assert comparer(volatile=("durations",)).normal(value) is value


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(PolicyInvalid, match="unknown volatile kind 'dates'") as caught:
        comparer(volatile=("uuids", "dates"))
    assert caught.value.hint == "one of timestamps, uuids, durations, tmp_paths"


def test_settles_says_which_kind_would_help() -> None:
    assert settles("uuids", ("id",), UUID, OTHER_UUID)
    assert not settles("timestamps", ("id",), UUID, OTHER_UUID)
    assert settles("durations", ("runs", "tookMs", 0), 1, 2)
    assert not settles("durations", ("tookMs", "count"), 1, 2)
    assert not settles("uuids", (), UUID, "none")


# Which rules mattered

ALL = Rules(("$.id", "$.same"), ("x-id",), ("t",), ("uuids", "durations"))


def test_the_rules_that_hid_a_difference_are_named() -> None:
    one = Comparer(ALL, Redactor())
    expected = {
        "id": 1,
        "same": 1,
        "url": "http://h/?t=1",
        "headers": [["X-Id", "1"]],
        "text": f"{UUID} 5ms",
    }
    observed = {
        "same": 1,
        "url": "http://h/?t=2",
        "headers": [["X-Id", "2"]],
        "text": f"{OTHER_UUID} 5ms",
    }
    assert one.key(expected) == one.key(observed)
    assert one.applied(expected, observed) == (
        "ignore header x-id",
        "ignore query t",
        "ignore $.id",
        "volatile uuids",
    )
    assert one.applied(expected, expected) == ()


def test_what_is_hidden_twice_is_said_once() -> None:
    one = comparer(ignore_paths=("$.id", "$..id"), volatile=("uuids",))
    assert one.applied({"id": UUID}, {"id": OTHER_UUID}) == ("ignore $.id",)


@pytest.mark.parametrize(
    "one, other, rule",
    [
        ({"a": "5ms", "b": "6ms"}, {"a": "6ms", "b": "5ms"}, "volatile durations"),
        ({"a": "5ms 6ms"}, {"a": "6ms 5ms"}, "volatile durations"),
        ({"headers": [["X-Id", 1], ["X-Id", 2]]}, {"headers": [["X-Id", 2], ["X-Id", 1]]}, "ignore header x-id"),
        ({"url": "/?t=1&t=2"}, {"url": "/?t=2&t=1"}, "ignore query t"),
    ],
)  # fmt: skip
def test_what_changed_places_is_a_difference_that_was_hidden(
    one: dict[str, Any], other: dict[str, Any], rule: str
) -> None:
    both = Comparer(ALL, Redactor())
    assert both.key(one) == both.key(other)
    assert both.applied(one, other) == (rule,)


def test_rules_that_hid_something_are_named_even_when_more_differs() -> None:
    one = comparer(ignore_paths=("$.id",))
    assert one.applied({"id": 1, "q": "a"}, {"id": 2, "q": "b"}) == ("ignore $.id",)
