"""Two texts side by side. (Escaping and clipping are tested with the command line's tables.)"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.diff.terminal_text import around_difference, cell_width, common_start, preview

TEXTS = st.text("ab", max_size=30)


@given(TEXTS, TEXTS)
def test_common_start_is_the_longest(one: str, other: str) -> None:
    place = common_start(one, other)
    assert one[:place] == other[:place]
    assert place == min(len(one), len(other)) or one[place] != other[place]


@pytest.mark.parametrize(
    "one, other, shown",
    [
        ("short", "other", ("short", "other")),
        (
            "a" * 50 + "X" + "b" * 50,
            "a" * 50 + "Y" + "b" * 50,
            ("...aaaaaaXbbbbbbb...", "...aaaaaaYbbbbbbb..."),
        ),
        ("X" + "b" * 50, "Y", ("Xbbbbbbbbbbbbbbbb...", "Y")),
        ("a" * 50, "a" * 50 + "Y", ("...aaaaaa", "...aaaaaaY")),
    ],
)
def test_around_shows_the_first_difference(one: str, other: str, shown: tuple[str, str]) -> None:
    assert around_difference(one, other, 20) == shown


@given(TEXTS, TEXTS, st.integers(10, 25))
def test_around_keeps_to_its_room_and_shows_that_they_differ(
    one: str, other: str, room: int
) -> None:
    left, right = around_difference(one, other, room)
    assert len(left) <= room
    assert len(right) <= room
    assert (left == right) == (one == other)


@pytest.mark.parametrize(
    "text, taken",
    [("ab", 2), ("漢字", 4), ("e\u0301", 1), ("ก\u0e34", 1), ("a\u20dd", 1), ("😀", 2)],
)
def test_cells_of_a_terminal(text: str, taken: int) -> None:
    assert cell_width(text) == taken


def test_a_preview_of_bytes_is_their_size_and_digest() -> None:
    assert preview({"body": (b"x", 1)}, 200).startswith('{"body": [1 bytes, sha256:')
