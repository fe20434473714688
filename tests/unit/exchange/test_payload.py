"""A payload, its document, an edit of it, and the payload again."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.errors import UsageError
from reenact.exchange.model import Body, Payload
from reenact.exchange.payload import check_payload, from_document, payload_digest, to_document
from reenact.exchange.payload_edits import edit_payload, parse_settings
from reenact.format.canonical import jcs

ORDER = Payload(
    headers=(("Content-Type", "application/json"), ("X-Tag", "a"), ("Host", "h"), ("x-tag", "b")),
    body=Body(type="json", text='{"amount": 4, "note": "é"}', content_type="application/json"),
    properties={"http.method": "POST", "deep": {"list": [1, 2]}},
)


def test_the_document_of_a_payload():
    assert to_document(ORDER) == {
        "headers": {"content-type": "application/json", "x-tag": ["a", "b"], "host": "h"},
        "body": {"amount": 4, "note": "é"},
        "properties": {"http.method": "POST", "deep": {"list": [1, 2]}},
    }


def test_a_document_shares_nothing_with_its_payload():
    to_document(ORDER)["properties"]["deep"]["list"].append(3)
    assert ORDER.properties["deep"]["list"] == [1, 2]


def test_what_is_not_edited_stays_to_the_letter():
    odd = Payload(body=Body(type="json", text='{ "a":1 ,\n"b" : 1.50}'))
    assert from_document(to_document(odd), odd) == odd
    assert from_document(to_document(ORDER), ORDER) == ORDER


def test_an_edit_is_printed_as_the_original_was():
    assert (
        edit_payload(ORDER, parse_settings(["body.amount=5"])).body.text
        == '{"amount": 5, "note": "é"}'
    )


@pytest.mark.parametrize(
    "text, edited",
    [
        ('{"a":1,"b":[1,2]}', '{"a":9,"b":[1,2]}'),
        ('{"a": 1, "b": [1, 2]}\n', '{"a": 9, "b": [1, 2]}\n'),
        ('{\n  "a": 1,\n  "b": [\n    1\n  ]\n}', '{\n  "a": 9,\n  "b": [\n    1\n  ]\n}'),
        ('{\n\t"a": 1\n}', '{\n\t"a": 9\n}'),
        ('{"a":1,"b":"\\u00e9, \\": "}', '{"a":9,"b":"\\u00e9, \\": "}'),
        ('{"b":"x: y, z","a":1}', '{"b":"x: y, z","a":9}'),
    ],
)
def test_styles(text, edited):
    payload = Payload(body=Body(type="json", text=text))
    assert edit_payload(payload, parse_settings(["body.a=9"])).body.text == edited


def test_headers_keep_order_and_spelling():
    document = to_document(ORDER)
    document["headers"]["x-tag"] = ["c", "d", "e"]
    document["headers"]["x-new"] = "n"
    del document["headers"]["host"]
    assert from_document(document, ORDER).headers == (
        ("Content-Type", "application/json"),
        ("X-Tag", "c"),
        ("x-tag", "d"),
        ("x-tag", "e"),
        ("x-new", "n"),
    )


def test_a_repeated_header_becomes_one():
    document = to_document(ORDER)
    document["headers"]["x-tag"] = "only"
    assert [pair for pair in from_document(document, ORDER).headers if "ag" in pair[0]] == [
        ("X-Tag", "only")
    ]


TEXT = Payload(body=Body(type="text", text="hello"))
BYTES = Payload(body=Body(type="bytes", base64="AAE="))


@pytest.mark.parametrize(
    "original, setting, body",
    [
        (TEXT, "body=bye", Body(type="text", text="bye")),
        (BYTES, 'body={"$bytes":"/w=="}', Body(type="bytes", base64="/w==")),
        (Payload(), "body=hi", Body(type="text", text="hi")),
        (Payload(), 'body={"a":1}', Body(type="json", text='{"a":1}')),
        (Payload(), 'body={"$bytes":"/w=="}', Body(type="bytes", base64="/w==")),
        (TEXT, 'body={"$json":{"a":1}}', Body(type="json", text='{"a":1}')),
        (BYTES, 'body={"$text":"t"}', Body(type="text", text="t")),
    ],
)
def test_an_edit_keeps_the_type_unless_it_says_so(original, setting, body):
    assert edit_payload(original, parse_settings([setting])).body == body


@pytest.mark.parametrize(
    "original, setting, said",
    [
        (TEXT, "body=5", "must be a string"),
        (TEXT, "body=null", "must be a string"),
        (BYTES, "body=hello", "is bytes"),
        (BYTES, 'body={"$bytes":"***"}', "not base64"),
        (BYTES, 'body={"$bytes":"A"}', "not base64"),
        (TEXT, 'headers={"X-A":"1","x-a":"2"}', "twice"),
        (TEXT, 'headers={"x-a":5}', "neither a string"),
        (TEXT, "headers=5", "is not an object"),
        (TEXT, 'headers.x-a="a\\r\\nb: c"', "control characters"),
        (TEXT, "headers['x y']=1", "not a valid header name"),
        (TEXT, "properties=[]", "is not an object"),
    ],
)
def test_an_edit_that_is_refused(original, setting, said):
    with pytest.raises(UsageError) as refused:
        edit_payload(original, parse_settings([setting]))
    assert said in str(refused.value)


def test_a_section_that_no_payload_has():
    with pytest.raises(UsageError, match="no 'extra'"):
        from_document({"extra": 1}, TEXT)


def test_a_body_that_is_taken_away():
    document = to_document(TEXT)
    del document["body"]
    assert from_document(document, TEXT).body == Body()


def test_json_that_looks_like_bytes_stays_json():
    odd = Payload(body=Body(type="json", text='{"$bytes":"x"}'))
    assert edit_payload(odd, parse_settings(['body={"$bytes":"y"}'])).body.text == '{"$bytes":"y"}'


def test_one_is_not_one_point_zero():
    payload = Payload(body=Body(type="json", text="1"))
    assert edit_payload(payload, parse_settings(["body=1.0"])).body.text == "1.0"


def test_the_type_follows_the_header():
    edited = edit_payload(TEXT, parse_settings(["headers.content-type=text/csv"]))
    assert edited.body.content_type == "text/csv"


def test_the_digest_is_that_of_the_canonical_json_without_defaults():
    canonical = b'{"body":{"text":"hello","type":"text"},"headers":[["A","b"]]}'
    payload = Payload(headers=(("A", "b"),), body=Body(type="text", text="hello"))
    assert payload_digest(payload) == f"sha256:{hashlib.sha256(canonical).hexdigest()}"
    assert payload_digest(Payload()) == f"sha256:{hashlib.sha256(b'{}').hexdigest()}"


@given(
    st.builds(
        Payload,
        headers=st.lists(st.tuples(st.sampled_from(["A", "a", "B"]), st.text("xyz"))).map(tuple),
        body=st.builds(
            Body, type=st.sampled_from(["none", "text"]), text=st.text("ab"), clipped=st.none()
        ),
        properties=st.dictionaries(st.text("ab"), st.integers() | st.none()),
    )
)
def test_a_digest_survives_the_wire_and_a_document(payload):
    there = msgspec.json.decode(msgspec.json.encode(payload), type=Payload)
    assert payload_digest(there) == payload_digest(payload)
    assert payload_digest(from_document(to_document(payload), payload)) == payload_digest(payload)


@pytest.mark.parametrize(
    "payload",
    [
        Payload(headers=(("a\nb", "c"),)),
        Payload(headers=(("a", "c\0"),)),
        Payload(body=Body(type="json", text="{")),
        Payload(body=Body(type="json", text="NaN")),
        Payload(body=Body(type="bytes", base64="?")),
        Payload(properties={"a": float("nan")}),
    ],
)
def test_payloads_that_nothing_can_begin_with(payload):
    with pytest.raises(UsageError):
        check_payload(payload)


@pytest.mark.parametrize(
    "properties",
    [
        {"http.method": "GET", "http.status": 200},
        {"n": 1.0},
        {"n": 1e30, "small": 1e-9},
        {"é": "x", "z": "é"},
        {"\U0001f600": 1, "\uffff": 2},
        {"$bytes": "AA=="},
        {"big": 2**63, "flag": True, "none": None},
    ],
)
def test_the_digest_is_that_of_the_canonical_form_whatever_the_properties(properties):
    payload = Payload(headers=(("a", "b"),), properties=properties)
    canonical = jcs({"headers": [["a", "b"]], "properties": properties})
    assert payload_digest(payload) == f"sha256:{hashlib.sha256(canonical).hexdigest()}"
