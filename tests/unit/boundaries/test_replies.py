"""Answers as a boundary gets them."""

from __future__ import annotations

import pytest

from reenact.boundaries.http.api import BufferedResponse, Head, Reply
from reenact.errors import RecordingDamaged


def test_an_answer_that_comes_at_once_is_read_piece_by_piece() -> None:
    reply = Reply(BufferedResponse([Head(status=200), b"one", b"two"]))
    assert (reply.head.status, list(reply)) == (200, [b"one", b"two"])


def test_what_broke_it_off_comes_after_the_last_piece() -> None:
    reply = Reply(BufferedResponse([Head(status=200), b"one"], OSError("gone")))
    read: list[bytes] = []
    with pytest.raises(OSError, match="gone"):
        read.extend(reply)
    assert read == [b"one"]


def test_an_answer_without_a_head_is_damage() -> None:
    with pytest.raises(RecordingDamaged, match="no status"):
        Reply(BufferedResponse([]))
