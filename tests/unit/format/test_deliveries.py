"""Deliveries as events, and runs of pieces."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.format.event import (
    LONGEST_CHUNK_RUN,
    chunk_delivery,
    delivery_names,
    parse_chunk_delivery,
)


def test_one_piece_is_told_without_a_count() -> None:
    data = chunk_delivery(3, 7, 1)
    assert (data["source"], data["key"], "count" in data) == ("schedule", "chunk:3:7", False)


def test_several_pieces_are_one_event_with_a_name_each() -> None:
    data = chunk_delivery(3, 7, 3)
    assert data["count"] == 3
    assert delivery_names(data["key"], data["count"]) == ["chunk:3:7", "chunk:3:8", "chunk:3:9"]
    assert parse_chunk_delivery(data["key"], data["count"]) == (3, 7, 3)


@pytest.mark.parametrize("key", ["timer:1", "chunk:1", "chunk:a:1", "chunk:1:2:3", "", None, 5])
def test_other_deliveries_are_no_run(key: Any) -> None:
    assert parse_chunk_delivery(key, 2) is None


@pytest.mark.parametrize("count", [0, 1, -1, LONGEST_CHUNK_RUN + 1, True, "3", 2.0, [2], None])
def test_a_count_that_nobody_writes_counts_as_one(count: Any) -> None:
    assert delivery_names("chunk:0:0", count) == ["chunk:0:0"]


def test_a_count_beside_another_name_says_nothing() -> None:
    assert delivery_names("timer:4", 9) == ["timer:4"]
