"""Two sequences side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reenact.diff.sequences import align, mark_words, pair_up, word_diff

_items = st.lists(st.integers(0, 5), max_size=14)


@given(_items, _items)
def test_every_item_is_there_once_and_in_order(one: list[int], other: list[int]) -> None:
    pairs = align(one, other)
    assert [left for left, _ in pairs if left is not None] == list(range(len(one)))
    assert [right for _, right in pairs if right is not None] == list(range(len(other)))
    for left, right in pairs:
        if left is not None and right is not None:
            assert one[left] == other[right]


def _same(one: str, other: str) -> str:
    return "".join(
        one[left]
        for left, right in align(one, other)
        if None not in (left, right) and left is not None
    )


def test_what_occurs_once_holds_the_rest_in_place() -> None:
    assert _same("axbxc", "xaxxbc") == "axbc"


def test_repeated_items_are_aligned_by_the_fewest_edits() -> None:
    one = "ab" * 3_000
    other = "ab" * 1_000 + "bb" + "ab" * 2_000
    assert _same(one, other) == one


def test_a_rest_with_nothing_in_common_is_different_as_a_whole() -> None:
    assert align("aaab", "ccdd")[:4] == [(0, None), (1, None), (2, None), (3, None)]


def test_what_only_one_side_has_is_in_nobodys_way() -> None:
    one = [item for number in range(1_000) for item in (f"one {number}", " ")]
    other = [item for number in range(1_000) for item in (f"other {number}", " ")]
    same = [pair for pair in align(one, other) if None not in pair]
    assert same == [(place, place) for place in range(1, 2_000, 2)]


def test_a_long_rest_that_needs_too_many_edits_is_different_as_a_whole() -> None:
    one, other = [1, 1, 2] * 500, [2, 2, 1] * 500 + [2]
    assert [pair for pair in align(one, other) if None not in pair] == [(1498, 1499), (1499, 1500)]


_texts = st.text(alphabet="ab .\n", max_size=40)


@given(_texts, _texts)
def test_words_make_both_texts_again(one: str, other: str) -> None:
    pieces = word_diff(one, other)
    assert "".join(text for kind, text in pieces if kind != "added") == one
    assert "".join(text for kind, text in pieces if kind != "removed") == other


def test_words_are_whole() -> None:
    assert word_diff("It is 21 degrees.", "It is 19 degrees!") == [
        ("same", "It is "),
        ("removed", "21"),
        ("added", "19"),
        ("same", " degrees"),
        ("removed", "."),
        ("added", "!"),
    ]


def test_neighbours_that_are_replaced_are_one_change() -> None:
    assert word_diff("take a warm coat, please", "take a light old shirt, please") == [
        ("same", "take a "),
        ("removed", "warm coat"),
        ("added", "light old shirt"),
        ("same", ", please"),
    ]


def test_a_word_that_goes_and_one_that_comes_are_two_changes() -> None:
    assert word_diff("one two three", "two three four") == [
        ("removed", "one "),
        ("same", "two three"),
        ("added", " four"),
    ]


def test_lines_are_changed_one_by_one() -> None:
    assert word_diff("a\nb", "c\nd") == [
        ("removed", "a"),
        ("added", "c"),
        ("same", "\n"),
        ("removed", "b"),
        ("added", "d"),
    ]


def test_items_between_equal_ones_are_paired_by_the_next_key() -> None:
    one, other = ["a1", "b1", "c1", "d1"], ["a1", "c2", "e1", "d1"]
    found = [*pair_up(one, other, str, lambda item: item[0])]
    assert found == [("a1", "a1"), ("b1", None), ("c1", "c2"), (None, "e1"), ("d1", "d1")]


def test_items_between_pairs_are_paired_in_order_if_requested() -> None:
    one, other = ["a", "x1", "x2", "b"], ["a", "y1", "b"]
    assert [*pair_up(one, other, str)] == [
        ("a", "a"),
        ("x1", None),
        ("x2", None),
        (None, "y1"),
        ("b", "b"),
    ]
    assert [*pair_up(one, other, str, in_order=True)] == [
        ("a", "a"),
        ("x1", "y1"),
        ("x2", None),
        ("b", "b"),
    ]


def test_each_sequence_can_have_its_own_key() -> None:
    keys = (str.lower, str.upper)
    assert [*pair_up(["A"], ["b", "A"], (str.lower, str.lower))] == [(None, "b"), ("A", "A")]
    assert [*pair_up(["a"], ["a"], keys)] == [("a", None), (None, "a")]


def test_changed_words_are_marked_and_long_equal_parts_are_shortened() -> None:
    assert mark_words("it is warm", "it is cold\x1b") == "it is [-warm-]{+cold\\u001b+}"
    shown = mark_words(f"{'a ' * 100}warm", f"{'a ' * 100}cold")
    assert shown.startswith(" ... a")
    assert shown.endswith("[-warm-]{+cold+}")
    assert len(shown) < 80
