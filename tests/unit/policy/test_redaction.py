from __future__ import annotations

import json
import traceback
from typing import Any

import orjson
import pytest

from reenact.errors import UsageError, ValueRefused
from reenact.policy.redaction.redactor import PLACEHOLDER, Mark, Redactor, blind
from tests.unit.policy.secrets_for_tests import TOKENS

P = PLACEHOLDER
KEY = TOKENS["shape.openai"]


def _value(value: Any, **options: Any) -> Any:
    return Redactor(**options).redact(value).value


def test_what_changes_is_marked_with_path_rule_and_original() -> None:
    value = {
        "request": {"headers": [["Accept", "*/*"], ["Authorization", "Bearer x"]]},
        "odd key": [{"text": f"use {KEY}"}],
        "n": {"password": 12345},
    }
    result = Redactor().redact(value)
    assert result.value == {
        "request": {"headers": [["Accept", "*/*"], ["Authorization", P]]},
        "odd key": [{"text": f"use {P}"}],
        "n": {"password": P},
    }
    assert result.marks == (
        Mark("$.request.headers[1][1]", "name", "Bearer x"),
        Mark("$['odd key'][0].text", "shape.openai", f"use {KEY}"),
        Mark("$.n.password", "name", 12345),
    )


def test_unchanged_parts_are_shared_and_the_input_stays() -> None:
    value = {"a": {"deep": [1, 2]}, "b": {"token": "x"}}
    result = Redactor().redact(value)
    assert result.value["a"] is value["a"]
    assert value["b"] == {"token": "x"}
    clean = {"a": [1, "x", None]}
    assert Redactor().redact(clean).value is clean


def test_every_leaf_under_a_secret_name_but_the_empty_ones() -> None:
    value = {"credentials": {"a": "x", "b": [b"y", 1, 2.5, None, True, "", b""], "c": {"d": "z"}}}
    assert _value(value) == {
        "credentials": {"a": P, "b": [P.encode(), P, P, None, True, "", b""], "c": {"d": P}}
    }


def test_tuples_stay_tuples_and_bytes_stay_bytes() -> None:
    value = {"headers": ((b"authorization", b"x"), (b"accept", b"y")), "body": b'{"token": "x1"}'}
    assert _value(value) == {
        "headers": ((b"authorization", P.encode()), (b"accept", b"y")),
        "body": f'{{"token": "{P}"}}'.encode(),
    }


def test_bytes_that_are_no_text() -> None:
    body = b"\xff\xfe password=" + b"hunter2 \x80\x81"
    assert _value(body) == b"\xff\xfe password=" + P.encode() + b" \x80\x81"


@pytest.mark.parametrize(
    "value,kept",
    [
        ([["Cookie", "sid=abc; b=c"]], [["Cookie", f"sid={P}; b={P}"]]),
        ({"set-cookie": ["sid=abc; Path=/"]}, {"set-cookie": [f"sid={P}; Path=/"]}),
        ({"cookies": {"sid": "a=b"}}, {"cookies": {"sid": P}}),
        ([{"name": "X-Api-Key", "value": "v"}], [{"name": "X-Api-Key", "value": P}]),
        (["tool", "--token", "x", "--n", "1"], ["tool", "--token", P, "--n", "1"]),
        (["tool", "--token=x"], ["tool", f"--token={P}"]),
        ([["password", "x"]], [["password", P]]),
    ],
)
def test_structures_with_names(value: Any, kept: Any) -> None:
    assert _value(value) == kept
    assert _value(kept) == kept


@pytest.mark.parametrize(
    "value",
    [
        {"usage": {"prompt_tokens": 5, "total_tokens": 6}, "max_tokens": 10},
        {"logprobs": [{"token": "Hi", "logprob": -0.1, "top_logprobs": []}]},
        {"required": ["password", "username"]},
        {"properties": {"api_key": {"type": "string", "description": "The key"}}},
        {"_meta": {"progressToken": "abc-1"}},
        {"nextPageToken": "abcdef"},
        {"token": None, "secret": False, "password": ""},
        ["password", "secret"],
    ],
)
def test_lookalikes_stay(value: Any) -> None:
    result = Redactor().redact(value)
    assert result.value is value
    assert result.marks == ()


@pytest.mark.parametrize(
    "value",
    [
        {"model": "m", "max_tokens": 1, "usage": {"prompt_tokens": 1, "total_tokens": 3}},
        {"messages": [{"role": "user", "content": "What is a token? Tell me the secret of it."}]},
        {"tool_calls": [{"id": "call_1", "function": {"arguments": '{"q": "x", "tokens": 5}'}}]},
        {"content": "a basic understanding; risk-adjusted-performance; see https://host/a?b=c"},
        {"stdout": "\x1b[31mred\x1b[0m 100% caf\u00e9"},
        {"id": "chatcmpl-A1b2C3", "system_fingerprint": "fp_0", "created": 1700000000},
    ],
)
@pytest.mark.parametrize("engine", ["hyperscan", "python"])
def test_the_gate_is_silent_on_ordinary_traffic(value: Any, engine: Any) -> None:
    encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    assert not Redactor(engine=engine).suspects(encoded)


def test_a_secret_cut_over_chunks_goes_and_the_number_of_chunks_stays() -> None:
    cut = [KEY[:2], KEY[2:9], KEY[9:]]
    value = {"chunks": ["data: " + cut[0], cut[1], cut[2] + " end", "tail"]}
    result = Redactor().redact(value)
    assert result.value == {"chunks": [f"data: {P}", "", " end", "tail"]}
    assert [mark.path for mark in result.marks] == ["$.chunks[0]", "$.chunks[1]", "$.chunks[2]"]
    assert Redactor().suspects(orjson.dumps(value))


@pytest.mark.parametrize("key", ["text", "bytes", "data"])
def test_chunks_that_are_objects(key: str) -> None:
    half = len(KEY) // 2
    parts: list[Any] = ["é" + KEY[:half], KEY[half:] + "é"]
    kept: list[Any] = ["é" + P, "é"]
    if key == "bytes":
        parts, kept = [p.encode() for p in parts], [k.encode() for k in kept]
    value = {"chunks": [{key: part, "at": 1} for part in parts]}
    assert _value(value) == {"chunks": [{key: part, "at": 1} for part in kept]}


def test_a_chunk_may_end_in_the_middle_of_a_character() -> None:
    stream = f"é {KEY} é".encode()
    value = {"chunks": [stream[:1], stream[1:8], stream[8:-1], stream[-1:]]}
    new = _value(value)["chunks"]
    assert len(new) == 4
    assert b"".join(new) == f"é {P} é".encode()


def test_a_name_in_one_chunk_and_its_value_in_the_next() -> None:
    assert _value({"chunks": ['{"pass', 'word": "hun', 'ter2", "a": 1}']}) == {
        "chunks": ['{"pass', f'word": "{P}', '", "a": 1}']
    }


def test_chunks_of_several_kinds_are_searched_one_by_one() -> None:
    assert _value({"chunks": ["a", b"token=x", 5]}) == {"chunks": ["a", b"token=" + P.encode(), 5]}


def test_profile_none_changes_nothing() -> None:
    redactor = Redactor("none", declared=["abcdef"])
    value = {"password": KEY}
    assert redactor.redact(value).value is value
    assert redactor.redact(value).marks == ()
    assert not redactor.suspects(orjson.dumps(value))
    assert redactor.survivors(orjson.dumps(value)) == ()
    assert redactor.text(KEY) == KEY
    assert redactor.describe() == ()


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(UsageError, match="profile"):
        Redactor("paranoid")  # type: ignore[arg-type]


def test_names_can_be_added_and_excused() -> None:
    redactor = Redactor(secret_names=["Door-Code"], not_secret_names=["csrf_token"])
    value = {"doorCode": "1234", "csrf_token": "x", "q": "door_code=77&a=1"}
    assert redactor.suspects(orjson.dumps(value))
    assert redactor.redact(value).value == {
        "doorCode": P,
        "csrf_token": "x",
        "q": f"door_code={P}&a=1",
    }


def test_a_pseudonym_is_stable_and_tells_secrets_apart() -> None:
    value = {"headers": [["authorization", f"Bearer {KEY}"]], "a": f"see {KEY}", "token": "other"}
    new = _value(value, salt=b"salt")
    name = new["headers"][0][1]
    assert new["a"] == f"see {name}"
    assert new["token"] != name
    assert name.startswith("***REDACTED:")
    assert len(name) == len("***REDACTED:") + 12 + 3
    assert _value(value, salt=b"salt") == new
    assert _value(value, salt=b"pepper") != new
    assert blind(new) == _value(value)
    assert _value(new, salt=b"pepper") == new


def test_blind_shares_what_it_does_not_change() -> None:
    mark = f"***REDACTED:{'0' * 12}***"
    value = {"a": [1, "x"], "b": (mark.encode(), f"x {mark}"), mark: None}
    assert blind(value) == {"a": [1, "x"], "b": (P.encode(), f"x {P}"), P: None}
    assert blind(value)["a"] is value["a"]
    clean = {"a": ["x", b"y"]}
    assert blind(clean) is clean


def test_survivors_are_reported_wherever_they_are() -> None:
    redactor = Redactor(declared=["open sesame"])
    in_a_key = orjson.dumps({"a": {KEY: 1}})
    assert redactor.survivors(in_a_key) == ("shape.openai",)
    assert redactor.redact({"a": {"open sesame": 1}}).marks == ()
    assert redactor.survivors(orjson.dumps({"a": {"open sesame": 1}})) == ("declared",)
    nested = json.dumps({"a": json.dumps({"open sesame": 1})}).encode()
    assert redactor.survivors(nested) == ("declared",)
    hidden = orjson.dumps({"a": {"$bytes": "c2stcHJvai1BMWIyQzNkNEU1ZjZHN2g4Sjlr"}})
    assert redactor.survivors(hidden) == ("shape.openai",)
    assert redactor.survivors(orjson.dumps(redactor.redact({"a": KEY}).value)) == ()


def test_a_path_does_not_tell_the_token_in_its_key() -> None:
    marks = Redactor().redact({"a": {KEY: {"password": "x"}}}).marks
    assert [mark.path for mark in marks] == ["$.a"]
    marks = Redactor(declared=["open-sesame"]).redact({"open-sesame": {"password": "x"}}).marks
    assert [mark.path for mark in marks] == [f"$.{P}.password"]


def test_no_secret_in_a_repr_or_an_exception() -> None:
    result = Redactor(declared=["open sesame"]).redact({"password": "hunter2", "t": KEY})
    assert "hunter2" not in repr(result)
    assert KEY not in repr(result)
    deep: Any = "hunter2"
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ValueRefused) as refused:
        Redactor().redact({"password": deep, "a": deep})
    assert "hunter2" not in "".join(traceback.format_exception_only(refused.value))


def test_the_rules_in_force_are_listed() -> None:
    default, strict = Redactor().describe(), Redactor("strict").describe()
    assert {"name", "env", "declared", "url.userinfo", "shape.openai"} <= set(default)
    assert set(strict) - set(default) == {"email", "card", "iban", "entropy", "header"}


def test_the_same_names_and_values_under_another_profile() -> None:
    redactor = Redactor("default", declared=["villa-rotonda-77"], secret_names=["shoeSize"])
    strict = redactor.under("strict")
    assert (redactor.profile, strict.profile) == ("default", "strict")
    assert redactor.under("default") is redactor
    value = {"at": "villa-rotonda-77", "shoeSize": "forty", "mail": "me@example.com"}
    assert redactor.redact(value).value["mail"] == "me@example.com"
    assert set(strict.redact(value).value.values()) == {PLACEHOLDER}
    assert redactor.under("none").redact(value).value == value


def test_a_redacted_connection_string_in_a_parameter_is_left_alone() -> None:
    """Redacting once more took the next parameter away, so that a replay did not match."""
    redactor = Redactor("default")
    secret = "a1B2c3D4e5F6g7H8" + "i9"
    for text in (
        "https://x.example/?r=Server%3Dx%3BUid%3Dme%3BP" + f"wd%3D{secret}%3B&t=2",
        "Server=x;Uid=me;P" + f"wd={secret};&t=2",
    ):
        once = redactor.text(text)
        assert secret not in once
        assert once.endswith("&t=2")
        assert redactor.text(once) == once


@pytest.mark.parametrize("profile", ["default", "strict"])
@pytest.mark.parametrize(
    "key,kept",
    [
        ("postgres://me:hunter2Zq@host/db", f"postgres://{P}@host/db"),
        ("AccountName=a;AccountKey=hunter2Zq", f"AccountName=a;AccountKey={P}"),
        ("Server=x;Uid=me;P" + "wd=hunter2Zq", "Server=x;Uid=me;P" + f"wd={P}"),
        (KEY, P),
    ],
)
def test_a_secret_in_the_name_of_a_field_is_removed(key: str, kept: str, profile: Any) -> None:
    redactor = Redactor(profile)
    value = {"pools": {"a": 1, key: {"password": "x1", "n": [1]}}}
    assert redactor.suspects(orjson.dumps(value))
    result = redactor.redact(value)
    assert result.value == {"pools": {"a": 1, kept: {"password": P, "n": [1]}}}
    assert [(mark.path, mark.original) for mark in result.marks] == [("$.pools", value["pools"])]
    assert redactor.redact(result.value).marks == ()
    assert redactor.survivors(orjson.dumps(result.value)) == ()
    assert "hunter2Zq" not in repr(result)


def test_two_secrets_as_names_of_fields_stay_two_fields() -> None:
    other = KEY[:-1] + "Z"
    assert _value({KEY: 1, other: 2, "a": 3}) == {P: 1, f"{P} (2)": 2, "a": 3}
