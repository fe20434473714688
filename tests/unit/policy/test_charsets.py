"""Bodies in UTF-16, UTF-32 and older charsets: redacted, and still readable in their own charset."""

from __future__ import annotations

import codecs
import json

import orjson
import pytest

from reenact.policy.redaction.gate import Engine
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor, blind
from tests.leak.planted import plant_shape
from tests.property.planted import encode

SECRET = "hunter2-Zq"
KEY = plant_shape("shape.github", "charsets").text
TEXT = json.dumps(
    {"user": "Ada é 中文 😀", "password": SECRET, "note": f"use {KEY} now"}, ensure_ascii=False
)
CLEAN = TEXT.replace(SECRET, PLACEHOLDER).replace(KEY, PLACEHOLDER)
WIDE = [
    ("utf-16", b""),
    ("utf-16-le", b""),
    ("utf-16-be", b""),
    ("utf-16-be", codecs.BOM_UTF16_BE),
    ("utf-16-le", codecs.BOM_UTF16_LE),
    ("utf-32", b""),
    ("utf-32-le", b""),
    ("utf-32-be", b""),
    ("utf-32-be", codecs.BOM_UTF32_BE),
]
NARROW = ["utf-8-sig", "latin-1", "cp1252", "iso8859-15", "koi8-r", "euc-jp", "gb18030", "big5"]


@pytest.mark.parametrize("engine", ["hyperscan", "python"])
@pytest.mark.parametrize("charset,mark", WIDE)
def test_a_wide_body_is_redacted_in_its_charset(charset: str, mark: bytes, engine: Engine) -> None:
    body = mark + TEXT.encode(charset)
    redactor = Redactor(engine=engine)
    assert redactor.suspects(encode({"body": body}))
    new = redactor.redact({"body": body}).value["body"]
    assert new == mark + CLEAN.encode(charset)
    assert redactor.redact({"body": new}).marks == ()
    assert redactor.survivors(encode({"body": body})) == ("shape.github",)
    assert redactor.survivors(encode({"body": new})) == ()


@pytest.mark.parametrize("charset", NARROW)
def test_a_body_in_an_older_charset_is_redacted(charset: str) -> None:
    text = TEXT.encode(charset, "ignore").decode(charset)
    new = Redactor().redact({"body": text.encode(charset)}).value["body"]
    assert new.decode(charset) == text.replace(SECRET, PLACEHOLDER).replace(KEY, PLACEHOLDER)


def test_wide_text_that_is_a_string() -> None:
    """Without a byte order mark and in ASCII only, UTF-16 is also UTF-8."""
    text = json.dumps({"password": SECRET, "t": KEY}).encode("utf-16-le").decode()
    redactor = Redactor()
    assert redactor.suspects(orjson.dumps({"body": text}))
    assert redactor.survivors(orjson.dumps({"body": text})) == ("shape.github",)
    new = redactor.redact({"body": text}).value["body"]
    assert json.loads(new.encode().decode("utf-16-le")) == {
        "password": PLACEHOLDER,
        "t": PLACEHOLDER,
    }
    assert redactor.survivors(orjson.dumps({"body": new})) == ()


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-be", "utf-32-le"])
@pytest.mark.parametrize("cut", [1, 7, 60, 63, 71, 90])
def test_wide_text_that_is_cut_over_chunks(charset: str, cut: int) -> None:
    body = TEXT.encode(charset)
    value = {"chunks": [body[:cut], body[cut:]]}
    assert Redactor().suspects(encode(value))
    new = Redactor().redact(value).value["chunks"]
    assert len(new) == 2
    assert b"".join(new) == CLEAN.encode(charset)


def test_wide_text_that_is_cut_in_a_character() -> None:
    body = TEXT.encode("utf-16-le")[:-1]
    new = Redactor().redact(body).value
    assert new == CLEAN.encode("utf-16-le")[:-1]


def test_wide_parts_behind_plain_ones() -> None:
    """The parts of a form have their own charsets, and begin anywhere."""
    for before in (b"--b\r\n\r\n", b"--b\r\n\r\nx"):
        body = before + TEXT.encode("utf-16-le") + b"\r\n--b--"
        new = Redactor().redact(body).value
        assert new == before + CLEAN.encode("utf-16-le") + b"\r\n--b--"


def test_a_wide_value_under_a_secret_name_keeps_its_charset() -> None:
    value = {"password": codecs.BOM_UTF16_LE + SECRET.encode("utf-16-le")}
    new = Redactor().redact(value).value
    assert new["password"].decode("utf-16") == PLACEHOLDER
    assert Redactor().redact(new).marks == ()


def test_a_declared_value_in_wide_text() -> None:
    redactor = Redactor(declared=["villa-rotonda-77"])
    new = redactor.redact("at villa-rotonda-77 now".encode("utf-16")).value
    assert new.decode("utf-16") == f"at {PLACEHOLDER} now"


def test_binary_data_without_secrets_stays() -> None:
    data = (
        bytes(range(256)) * 8 + b"\0".join(b"some words as UTF-16".split()) + b"a\0b\0c\0d\0" * 20
    )
    assert Redactor().redact(data).value is data


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_a_pseudonym_in_wide_text_is_the_placeholder_to_the_blind(charset: str) -> None:
    body = TEXT.encode(charset)
    named = Redactor(salt=b"salt").redact({"body": body}).value
    assert named != Redactor().redact({"body": body}).value
    assert blind(named) == Redactor().redact({"body": body}).value
