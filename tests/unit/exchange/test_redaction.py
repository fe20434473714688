"""Secrets of an exchange, before anything of it is kept."""

from base64 import b64encode

import msgspec
import pytest

from reenact.exchange.model import Body, Change, Payload, Processor
from reenact.exchange.payload import make_body, to_document
from reenact.exchange.redaction import ExchangeRedactor, fill_values, placeholder_pointers
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

CLEANER = ExchangeRedactor(Redactor(environ={}))
PASSWORD = "-".join(["correct", "horse", "battery"])
TOKEN = "gh" + "p_" + "A1b2C3d4E5" * 3 + "f6G7h8"


def test_places_of_secrets_are_pointers():
    payload = Payload(
        headers=(("Authorization", f"Bearer {TOKEN}"), ("Accept", "a/b")),
        body=make_body(
            b'{"user": {"password": "%s"}, "n": 1}' % PASSWORD.encode(), "application/json"
        ),
        properties={"http.query": f"token={PASSWORD}&a=1"},
    )
    clean = CLEANER.payload(payload)
    assert set(clean.pointers) == {
        "/headers/authorization",
        "/body/user/password",
        "/properties/http.query",
    }
    assert clean.payload.body.text == f'{{"user": {{"password": "{PLACEHOLDER}"}}, "n": 1}}'
    assert clean.payload.headers[1] == ("Accept", "a/b")
    sent = msgspec.json.encode(clean.payload).decode()
    assert PASSWORD not in sent
    assert TOKEN not in sent


def test_what_has_no_secrets_stays_as_it_is():
    payload = Payload(body=make_body(b'{ "a" :1}', "application/json"))
    assert CLEANER.payload(payload).payload is payload


def test_secrets_in_bytes():
    payload = Payload(body=Body(type="bytes", base64=b64encode(b"\xff " + TOKEN.encode()).decode()))
    clean = CLEANER.payload(payload)
    assert clean.pointers == ("/body",)
    assert b64encode(TOKEN.encode()).decode()[4:20] not in clean.payload.body.base64


def test_a_secret_as_a_key_is_replaced_and_its_object_is_needed_for_a_replay():
    payload = Payload(body=make_body(b'{"%s": 1}' % TOKEN.encode(), "application/json"))
    clean = CLEANER.payload(payload)
    assert clean.payload.body.text == f'{{"{PLACEHOLDER}": 1}}'
    assert (clean.pointers, clean.lost) == (("/body",), "")


def test_names_on_the_way_decide_over_changes():
    change = Change(op="replace", path="/headers/authorization", before="x1", after="y2")
    [one] = CLEANER.processors([Processor(processor_id="p", seq=1, changes=(change,))])
    assert [one.changes[0].before, one.changes[0].after] == [PLACEHOLDER, PLACEHOLDER]


def test_arguments_with_secret_names():
    given = Processor(processor_id="p", seq=1, input={"password": PASSWORD, "n": 1}, output=TOKEN)
    [one] = CLEANER.processors([given])
    assert one.input == {"password": PLACEHOLDER, "n": 1}
    assert TOKEN not in str(one.output)


def test_messages_of_errors():
    facts = CLEANER.error(ValueError(f"bad token {TOKEN}"))
    assert facts.type == "ValueError"
    assert TOKEN not in facts.message


def test_an_error_that_cannot_be_shown():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("no")

    assert CLEANER.error(Odd()).message == ""


def test_what_is_still_missing_and_what_an_edit_has_given():
    payload = Payload(
        headers=(("Authorization", PLACEHOLDER), ("Cookie", f"a=1; sid={PLACEHOLDER}")),
        body=make_body(b'{"password": "given"}', "application/json"),
    )
    redacted = ("/headers/authorization", "/headers/cookie", "/body/password", "/body/gone")
    assert placeholder_pointers(payload, redacted) == ("/headers/authorization", "/headers/cookie")


def test_what_was_filled_in_is_taken_out_again_whatever_it_is():
    payload = Payload(body=make_body(b'{"pin": "%s"}' % PLACEHOLDER.encode(), "application/json"))
    filled = fill_values(payload, {"/body/pin": "1234"})
    assert filled.body.text == '{"pin":"1234"}' or filled.body.text == '{"pin": "1234"}'
    clean = CLEANER.payload(filled, ["/body/pin", "/body/gone"])
    assert clean.payload == payload
    assert clean.pointers == ("/body/pin",)


@pytest.mark.parametrize("size", [10, 100_000])
def test_messages_are_bounded(size):
    assert len(CLEANER.error(ValueError("x" * size)).message) <= 4_096


@pytest.mark.parametrize("text", ["7%s", "-7%s", "7%s.0", "7%s.5", "7%se2", "7%se-30", "7.%se40"])
def test_a_declared_number_is_found_however_it_is_written(text):
    digits = "2345678901234568"
    payload = Payload(body=make_body(b'{"n": %b}' % (text % digits).encode(), "application/json"))
    for declared in (digits[:8], f"7{digits}", f"7.{digits}", digits):
        cleaner = ExchangeRedactor(Redactor(environ={}, declared=[declared]))
        marks = cleaner.redactor.redact(to_document(payload)).marks
        assert len(cleaner.payload(payload).pointers) == len(marks)
