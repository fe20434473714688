from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import orjson
import pytest

from reenact.errors import UsageError
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

ODD = 'p"a\\ss é&wörd'


@pytest.mark.parametrize(
    "spelled",
    [
        ODD,
        json.dumps({"a": ODD}),
        json.dumps({"a": ODD}, ensure_ascii=False),
        json.dumps(json.dumps({"a": ODD})),
        f"https://host/?x={quote(ODD, safe='')}",
        f"x={quote_plus(ODD)}&y=1",
    ],
)
def test_a_declared_value_in_every_spelling(spelled: str) -> None:
    redactor = Redactor(declared=[ODD])
    value = {"text": f"before {spelled} after"}
    assert redactor.suspects(orjson.dumps(value))
    result = redactor.redact(value)
    assert PLACEHOLDER in result.value["text"]
    assert "wörd" not in result.value["text"]
    assert [mark.rule for mark in result.marks] == ["declared"]
    assert redactor.survivors(orjson.dumps(value)) == ("declared",)


def test_variables_with_secret_names_and_no_others() -> None:
    environ = {
        "CORP_TOKEN": "abcdef1",
        "EDITOR": "vim-editor",
        "X_API_KEY": "short",
        "PWD": "/srv/x",
    }
    redactor = Redactor(environ=environ)
    text = "abcdef1 vim-editor short /srv/x"
    assert redactor.text(text) == f"{PLACEHOLDER} vim-editor short /srv/x"
    assert [m.rule for m in redactor.redact([f"in{environ['CORP_TOKEN']}side"]).marks] == ["env"]


def test_a_development_default_is_no_secret() -> None:
    redactor = Redactor(environ={"POSTGRES_PASSWORD": "postgres", "DB_PASSWORD": "password"})
    assert redactor.text("postgres asks for a password") == "postgres asks for a password"


def test_a_number_that_is_a_known_value() -> None:
    redactor = Redactor(environ={"DOOR_TOKEN": "424242"})
    assert redactor.redact({"n": 424242, "m": 4242420}).value == {"n": PLACEHOLDER, "m": 4242420}
    assert redactor.suspects(b'{"n":424242}')


def test_the_longest_value_goes_whole() -> None:
    redactor = Redactor(declared=["sesame", "open sesame now"])
    assert redactor.text("x open sesame now y") == f"x {PLACEHOLDER} y"


@pytest.mark.parametrize("value", ["", "abc", "REDACTED"])
def test_a_declared_value_that_cannot_be_searched_for(value: str) -> None:
    with pytest.raises(UsageError) as refused:
        Redactor(declared=[value])
    assert value == "" or value not in refused.value.message


def test_a_variable_that_is_no_text_does_no_harm() -> None:
    redactor = Redactor(environ={"A_TOKEN": "bad\udc80value"})
    assert redactor.text("fine") == "fine"


def test_a_value_of_signs_only_is_found_too() -> None:
    redactor = Redactor(declared=["!?!?!?"])
    assert redactor.suspects(b'"x"')
    assert redactor.text("a !?!?!? b") == f"a {PLACEHOLDER} b"
