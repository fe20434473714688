"""Lines of values in a JSON text."""

from __future__ import annotations

import json

from reenact.policy.files import lines_of

TEXT = """{
  "version": 1, "tests": [
    {"id": "a",
     "b c": {"[": "]},:\\"\\n", "deep": [
        [], [1,
        2]]}},
    {}
  ],
  "end": null
}
"""


def test_every_value_has_its_line() -> None:
    json.loads(TEXT)
    assert lines_of(TEXT) == {
        "$": 1,
        "$.version": 2,
        "$.tests": 2,
        "$.tests[0]": 3,
        "$.tests[0].id": 3,
        "$.tests[0]['b c']": 4,
        "$.tests[0]['b c']['[']": 4,
        "$.tests[0]['b c'].deep": 4,
        "$.tests[0]['b c'].deep[0]": 5,
        "$.tests[0]['b c'].deep[1]": 5,
        "$.tests[0]['b c'].deep[1][0]": 5,
        "$.tests[0]['b c'].deep[1][1]": 6,
        "$.tests[1]": 7,
        "$.end": 9,
    }


def test_a_name_is_read_with_its_escapes() -> None:
    assert lines_of('{"\\u0061": 1,\n"x": 2}') == {"$": 1, "$.a": 1, "$.x": 2}


def test_what_is_no_object_has_one_line() -> None:
    assert lines_of("  7") == {"$": 1}
    assert lines_of("[]") == {"$": 1}
