from __future__ import annotations

import json
from typing import Any

import pytest

from reenact.format.delta import apply, diff, shorten


def text_of(ops: list[Any]) -> str:
    return "".join(op for op in ops if isinstance(op, str))


def test_equal_texts_are_one_copy() -> None:
    base = b"conversation " * 50
    assert diff(base, base) == [[0, len(base)]]


def test_nothing_in_common_is_one_insert() -> None:
    assert diff(b"", b"target") == ["target"]
    assert diff(b"base", b"") == []


def test_an_append_in_front_of_a_closing_bracket_is_two_copies_and_the_new_text() -> None:
    base = b'{"messages":["' + b"first " * 40 + b'"]}'
    target = base[:-2] + b',"second"]}'
    assert diff(base, target) == [[0, len(base) - 3], '","second', [len(base) - 3, 3]]


def test_what_was_answered_is_copied_from_the_side() -> None:
    answer = b"an answer of some length, which the next request repeats word for word"
    base = b'{"m":["question, rather long to be found again"]}'
    target = b'{"m":["question, rather long to be found again","' + answer + b'"]}'
    ops = diff(base, target, answer)
    assert [len(base), len(answer)] in ops
    assert apply(base + answer, ops) == target
    assert "answer" not in text_of(ops)


def test_a_copy_never_cuts_a_character() -> None:
    """é is C3 A9 and è is C3 A8: the common byte alone is no text."""
    ops = diff("aé".encode(), "aè".encode())
    assert ops == [[0, 1], "è"]


def test_common_last_bytes_of_different_characters_are_not_copied() -> None:
    """© is C2 A9 and é is C3 A9."""
    ops = diff("©".encode(), "é".encode())
    assert ops == ["é"]


def test_many_small_edits_of_a_long_text_stay_small() -> None:
    words = [f"word{number:05d}" for number in range(4_000)]
    base = " ".join(words).encode()
    for place in range(100, 4_000, 400):
        words[place] = "edited"
    target = " ".join(words).encode()
    ops = diff(base, target)
    assert apply(base, ops) == target
    assert len(text_of(ops)) < 200


def test_a_removed_stretch_is_stepped_over() -> None:
    base = b"a" * 10 + b"removed part " * 60 + b"the end of the text, which is long enough to find"
    target = base.replace(b"removed part ", b"")
    ops = diff(base, target)
    assert apply(base, ops) == target
    assert text_of(ops) == ""


@pytest.mark.parametrize(
    "ops",
    [
        [[0, 5]],
        [[5, 1]],
        [[-1, 1]],
        [[0, -1]],
        [[0]],
        [[0, 1, 2]],
        [[0, True]],
        [[0.0, 1]],
        [None],
        [{"a": 1}],
        [7],
    ],
)
def test_an_operation_that_does_not_fit_is_refused(ops: list[Any]) -> None:
    with pytest.raises(ValueError):
        apply(b"base", ops)


def test_a_text_in_place_of_another_of_its_length_needs_no_positions() -> None:
    assert shorten([[0, 3], "XYZ", [6, 4], [2, 1]]) == [3, "XYZ", 4, [2, 1]]
    assert apply(b"0123456789", [3, "é", 4, 1]) == "012é56789".encode()


@pytest.mark.parametrize("times", [1, 2])
def test_an_escaped_text_is_written_as_it_is_read(times: int) -> None:
    text = found = 'a "quoted" word, a \\ and a line\n' * 2
    for _ in range(times):
        found = json.dumps(found)[1:-1]
    assert shorten([found]) == [(times, text)]
    assert apply(b"", [[times, text]]) == found.encode()


def test_a_text_that_another_encoder_has_escaped_is_rebuilt_exactly() -> None:
    text = r"caf\u00e9 " * 4  # JSON would not escape the letter
    assert shorten([text]) == [text]


def test_apply_copies_and_inserts_in_order() -> None:
    assert apply(b"0123456789", [[5, 2], "é", [0, 1], [10, 0]]) == "56é0".encode()
