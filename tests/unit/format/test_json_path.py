from __future__ import annotations

from typing import Any

import pytest

from reenact.errors import UsageError
from reenact.format.json_path import Path, join, lookup, parse


@pytest.mark.parametrize(
    "path, text",
    [
        ((), "$"),
        (("a", 0, "b c"), "$.a[0]['b c']"),
        (("it's", "back\\slash"), "$['it\\'s']['back\\\\slash']"),
        (("", "0", "-x", "x-y", "ü"), "$['']['0']['-x'].x-y['ü']"),
    ],
)
def test_join_writes_what_people_type_and_parse_reads_it(path: Path, text: str) -> None:
    assert join(path) == text
    assert parse(text) == path


@pytest.mark.parametrize("text", ["", "a.b", ".a", "['a']"])
def test_a_path_starts_with_a_dollar(text: str) -> None:
    with pytest.raises(UsageError, match="starts with") as caught:
        parse(text)
    assert caught.value.hint == "e.g. $.a[0].b"


@pytest.mark.parametrize(
    "text, place",
    [
        ("$a", 1),
        ("$.a.", 3),
        ("$.a[", 3),
        ("$.a[-1]", 3),
        ("$['a]", 1),
        ("$.a b", 3),
        ("$[" + "9" * 5_000 + "]", 1),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, place: int) -> None:
    with pytest.raises(UsageError, match=f"at character {place}$"):
        parse(text)


VALUE = {"a": [{"b": 1}, None], "": {"0": "zero"}}


@pytest.mark.parametrize(
    "text, found", [("$.a[0].b", 1), ("$.a[1]", None), ("$['']['0']", "zero"), ("$", VALUE)]
)
def test_lookup_gives_what_stands_there(text: str, found: Any) -> None:
    assert lookup(VALUE, parse(text)) == found


@pytest.mark.parametrize("text", ["$.b", "$.a[2]", "$.a.b", "$[0]", "$.a[0].b.c", "$.a[1][0]"])
def test_lookup_of_nothing_is_a_lookup_error(text: str) -> None:
    with pytest.raises(LookupError):
        lookup(VALUE, parse(text))
