"""What is kept of a process, and how it is told again."""

from __future__ import annotations

import pytest

from reenact.boundaries.processes.transcript import (
    ENDED,
    Account,
    GrowingAccount,
    Turn,
    load_account,
)
from reenact.errors import RecordingDamaged
from reenact.policy.redaction.redactor import Redactor, Screen


def _account() -> Account:
    account = Account(told=bytearray(b"told"))
    account.add(Turn(1, 3, 0, 0), b"one")
    account.add(Turn(2, 2, 4, 0), b"\xff\x00")
    account.add(Turn(1, 3, 4, 1), b"two")
    account.add(Turn(1, 0, 4, 1), b"")
    account.add(Turn(ENDED, 0, 4, 1), b"")
    account.exit_code = -15
    return account


def test_it_is_told_as_it_was() -> None:
    again = load_account(_account().dump(), "event 1")
    assert again == _account()
    assert [data for _, data in again.pieces()] == [b"one", b"\xff\x00", b"two", b"", b""]


def test_text_is_written_as_text_and_bytes_as_bytes() -> None:
    dumped = _account().dump()
    assert (dumped["stdout"], dumped["stderr"], dumped["stdin"]) == ("onetwo", b"\xff\x00", "told")
    assert dumped["turns"][1] == [2, 2, 4, 0]


@pytest.mark.parametrize("said", ["one***", "o", "one and a longer text"])
def test_what_was_redacted_comes_whole(said: str) -> None:
    dumped = {**_account().dump(), "stdout": said}
    pieces = load_account(dumped, "event 1").pieces()
    assert b"".join(data for turn, data in pieces if turn.stream == 1) == said.encode()


@pytest.mark.parametrize(
    "response",
    [
        None,
        {},
        {"turns": 3},
        {"turns": [[1]]},
        {"turns": [[7, 1, 0, 0]]},
        {"turns": [], "exitCode": "0"},
        {"turns": [], "stdout": 5},
    ],
    ids=["nothing", "no_turns", "a_number", "a_short_turn", "no_stream", "no_code", "no_output"],
)
def test_what_cannot_be_read(response: object) -> None:
    with pytest.raises(RecordingDamaged, match="event 9"):
        load_account(response, "event 9")


def test_nothing_is_written_early_that_may_become_a_secret() -> None:
    growing = GrowingAccount(lambda: Screen(Redactor()))
    first = growing.add(Turn(1, 14, 0, 0), b"done\ntoken=abc")
    assert "abc" not in str(first.get("stdout", ""))
    assert first["turns"] == [[1, 14, 0, 0]]
