"""JSON patches: the examples of RFC 6902, appendix A, and what operators type."""

from typing import Any

import pytest

from reenact.errors import UsageError
from reenact.exchange.model import Body, Payload
from reenact.exchange.payload_edits import (
    MAX_OPS,
    apply_patch,
    edit_payload,
    parse_settings,
    read_patch,
    to_patch,
)

APPENDIX: list[tuple[str, Any, list[dict[str, Any]], Any]] = [
    ("A.1", {"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    ("A.2", {"foo": ["bar", "baz"]}, [{"op": "add", "path": "/foo/1", "value": "qux"}], {"foo": ["bar", "qux", "baz"]}),
    ("A.3", {"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}),
    ("A.4", {"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    ("A.5", {"baz": "qux", "foo": "bar"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo", "foo": "bar"}),
    ("A.6", {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
     [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
     {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
    ("A.7", {"foo": ["all", "grass", "cows", "eat"]}, [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
     {"foo": ["all", "cows", "eat", "grass"]}),
    ("A.8", {"baz": "qux", "foo": ["a", 2, "c"]},
     [{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}],
     {"baz": "qux", "foo": ["a", 2, "c"]}),
    ("A.10", {"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
     {"foo": "bar", "child": {"grandchild": {}}}),
    ("A.11", {"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}], {"foo": "bar", "baz": "qux"}),
    ("A.14", {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ("A.16", {"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}], {"foo": ["bar", ["abc", "def"]]}),
    ("copy", {"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/0", "value": 0}], {"a": [1], "b": [0, 1]}),
    ("whole", {"a": 1}, [{"op": "replace", "path": "", "value": []}], []),
    ("null", {"a": None}, [{"op": "test", "path": "/a", "value": None}], {"a": None}),
    ("float", {"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
    ("self", {"a": 1}, [{"op": "move", "from": "/a", "path": "/a"}], {"a": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    "document, patch, expected", [row[1:] for row in APPENDIX], ids=[row[0] for row in APPENDIX]
)
def test_the_examples_of_the_rfc(document, patch, expected):
    before = repr(document)
    assert apply_patch(document, read_patch(patch)) == expected
    assert repr(document) == before


REFUSED: list[tuple[str, Any, list[dict[str, Any]], str]] = [
    ("A.9", {"baz": "qux"}, [{"op": "test", "path": "/baz", "value": "bar"}], "operation 0 (test /baz): it has another value"),
    ("A.12", {"foo": "bar"}, [{"op": "add", "path": "/baz/bat", "value": "qux"}], "operation 0 (add /baz/bat): 'baz' does not exist"),
    ("A.15", {"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": "10"}], "another value"),
    ("true is not 1", {"a": True}, [{"op": "test", "path": "/a", "value": 1}], "another value"),
    ("second", {"a": 1}, [{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}], "operation 1 (remove /a)"),
    ("beyond", {"a": []}, [{"op": "add", "path": "/a/1", "value": 1}], "the list has 1 items"),
    ("leading zero", {"a": [1, 2]}, [{"op": "remove", "path": "/a/01"}], "not a list index"),
    ("dash", {"a": [1]}, [{"op": "remove", "path": "/a/-"}], "not a list index"),
    ("into itself", {"a": {"b": 1}}, [{"op": "move", "from": "/a", "path": "/a/b"}], "into itself"),
    ("root", {"a": 1}, [{"op": "remove", "path": ""}], "complete document"),
    ("leaf", {"a": 1}, [{"op": "add", "path": "/a/b", "value": 1}], "neither an object nor a list"),
    ("no slash", {"a": 1}, [{"op": "remove", "path": "a"}], "does not begin with a slash"),
    ("tilde", {"a": 1}, [{"op": "remove", "path": "/~2"}], "neither ~0 nor ~1"),
]  # fmt: skip


@pytest.mark.parametrize(
    "document, patch, said", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_what_cannot_be_done_is_said_with_its_number_path_and_reason(document, patch, said):
    with pytest.raises(UsageError) as refused:
        apply_patch(document, read_patch(patch))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "patch, said",
    [
        ({}, "a list of operations"),
        ([{"op": "spin", "path": "/a"}], "operation 0: Invalid enum value 'spin'"),
        ([{"op": "add", "path": "/a"}], "operation 0 (add /a): it has no 'value'"),
        ([{"op": "move", "path": "/a"}], "it has no 'from'"),
        ([{"path": "/a"}], "missing required field `op`"),
        ([{"op": "remove", "path": 5}], "operation 0"),
        ([{"op": "remove", "path": "/a"}] * (MAX_OPS + 1), "operations at most"),
    ],
)
def test_what_is_no_patch(patch, said):
    with pytest.raises(UsageError) as refused:
        read_patch(patch)
    assert said in str(refused.value)


def test_a_patch_of_copies_of_copies_ends():
    doubling = [{"op": "copy", "from": "", "path": "/b"}, {"op": "copy", "from": "", "path": "/c"}]
    with pytest.raises(UsageError, match="too many"):
        apply_patch({"a": [1] * 100}, read_patch(doubling * 100))


def test_a_patch_goes_there_and_back():
    patch = [{"op": "move", "path": "/a", "from": "/b"}, {"op": "add", "path": "/c", "value": None}]
    assert to_patch(read_patch(patch)) == patch


@pytest.mark.parametrize(
    "setting, patch",
    [
        ("body.amount=5", {"op": "add", "path": "/body/amount", "value": 5}),
        ("body.name=ann lee", {"op": "add", "path": "/body/name", "value": "ann lee"}),
        ('body.name="5"', {"op": "add", "path": "/body/name", "value": "5"}),
        ("body.items[0].sku=A-1", {"op": "add", "path": "/body/items/0/sku", "value": "A-1"}),
        ("body.items[0]=null", {"op": "replace", "path": "/body/items/0", "value": None}),
        ("body.items.0=1", {"op": "replace", "path": "/body/items/0", "value": 1}),
        ("body.items[-]=[1]", {"op": "add", "path": "/body/items/-", "value": [1]}),
        ("body['a.b=c'].d/e=1", {"op": "add", "path": "/body/a.b=c/d~1e", "value": 1}),
        ("body['3']=1", {"op": "add", "path": "/body/3", "value": 1}),
        ("body=whole = text", {"op": "add", "path": "/body", "value": "whole = text"}),
        ("headers.X-User=5", {"op": "add", "path": "/headers/x-user", "value": "5"}),
        ('headers.accept=["a","b"]', {"op": "add", "path": "/headers/accept", "value": ["a", "b"]}),
        ("properties.http.path=/a", {"op": "add", "path": "/properties/http.path", "value": "/a"}),
        (
            "properties.customer['tier'].x=1",
            {"op": "add", "path": "/properties/customer/tier/x", "value": 1},
        ),
        ("/body/a~1b=true", {"op": "add", "path": "/body/a~1b", "value": True}),
    ],
)
def test_settings(setting, patch):
    assert to_patch(parse_settings([setting])) == [patch]


@pytest.mark.parametrize(
    "setting", ["body.amount", "=5", "amount=5", "body.[=5", "body..a=1", "body[x]=1", ""]
)
def test_settings_that_make_no_sense(setting):
    with pytest.raises(UsageError):
        parse_settings([setting])


def test_an_edit_finds_headers_in_any_letters():
    payload = Payload(
        headers=(("X-User", "ann"), ("Accept", "a")), body=Body(type="json", text='{"a": 1}')
    )
    ops = read_patch([{"op": "replace", "path": "/headers/X-USER", "value": "bob"}])
    assert edit_payload(payload, ops).headers == (("X-User", "bob"), ("Accept", "a"))
