"""What the numbers of records tell by themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.audit.verify_records import Anomaly, SequenceCheck


def oddities(seqs: list[int]) -> list[Anomaly]:
    order = SequenceCheck()
    found: list[Anomaly] = []
    for seq, following in zip(seqs, [*seqs[1:], None], strict=False):
        found += order.place(seq, following)
    return [*found, *order.end()]


@pytest.mark.parametrize(
    "seqs, expected",
    [
        ([0, 1, 2, 3], []),
        ([], []),
        ([1, 2], [("deleted", 0, 1)]),
        ([0, 4, 5], [("deleted", 1, 4)]),
        ([0, 2, 4, 5], [("deleted", 1, 2), ("deleted", 3, 4)]),
        ([0, 1, 1, 2], [("duplicate", 1, 2)]),
        ([0, 2, 1, 3], [("reordered", 2, 3)]),
        ([0, 3, 1, 2, 4], [("reordered", 3, 4)]),
        ([0, 3, 1, 2, 3, 4], [("duplicate", 3, 4)]),
        ([0, 2, 3, 1, 4], [("reordered", 1, 2)]),
        ([0, 4, 1, 2, 6, 7], [("reordered", 4, 5), ("deleted", 3, 4), ("deleted", 5, 6)]),
        (
            [1, 8, 2, 3, 4, 7, 5, 0, 9],
            [("reordered", 0, 1), ("reordered", 7, 8), ("reordered", 8, 9), ("deleted", 6, 7)],
        ),
        ([0, 9, 1, 2], [("reordered", 9, 10), ("deleted", 3, 9)]),
        ([0, 9, 1, 9], [("duplicate", 9, 10), ("reordered", 9, 10), ("deleted", 2, 9)]),
    ],
)
def test_records_that_are_not_in_line(
    seqs: list[int], expected: list[tuple[str, int, int]]
) -> None:
    assert list(map(tuple, oddities(seqs))) == expected


@given(st.permutations(range(12)))
def test_a_shuffled_log_has_lost_nothing_and_has_nothing_twice(seqs: list[int]) -> None:
    kinds = {found.kind for found in oddities(seqs)}
    assert kinds == (set() if seqs == sorted(seqs) else {"reordered"})


@given(st.lists(st.integers(0, 12), max_size=14))
def test_gaps_and_copies_are_exactly_those_there_are(seqs: list[int]) -> None:
    found = oddities(seqs)
    deleted = {n for kind, start, end in found if kind == "deleted" for n in range(start, end)}
    copies = sum(kind == "duplicate" for kind, _, _ in found)
    assert deleted == set(range(max(seqs, default=-1) + 1)) - set(seqs)
    assert copies == len(seqs) - len(set(seqs))


def test_a_log_with_a_gap_at_every_second_place_is_bounded() -> None:
    order = SequenceCheck()
    found = [odd for seq in range(0, 60_000, 2) for odd in order.place(seq, seq + 2)]
    assert len(found) + len(list(order.end())) == 29_999
    assert len(found) >= 19_000


def test_a_gap_that_is_filled_at_every_second_place_is_bounded() -> None:
    order = SequenceCheck()
    found = list(order.place(60_000, None))
    for seq in range(0, 60_000, 2):
        found += order.place(seq, None)
    found += order.end()
    assert sum(odd.kind == "reordered" for odd in found) == 30_000
    assert sum(odd.kind == "deleted" for odd in found) == 30_000
