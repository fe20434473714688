"""The table of modes and operations: every cell, with and without a cassette that is there."""

from __future__ import annotations

import pytest

from reenact import rr
from reenact.rr.entries import MISS, MODE_FORBIDS_APPEND, MODE_FORBIDS_NEXT, OPEN_FAILED
from tests.unit.rr.cassettes import DOWN, PING, contents, counts, file, opened, raises_number, write

MODES = ("off", "record", "replay", "record_missing", "rewrite")


# off


def test_off_opens_and_touches_nothing() -> None:
    with opened(mode="off") as handle:
        assert counts(handle) == {
            "v": 1,
            "mode": 0,
            "match_mode": 0,
            "cassettes": 0,
            "entries": 0,
            "used": 0,
            "bytes": 0,
        }
    assert not file().parent.exists()


def test_off_serves_nothing_and_takes_nothing() -> None:
    write(PING)
    before = file().read_bytes()
    with opened(mode="off") as handle:
        with raises_number(MODE_FORBIDS_NEXT):
            rr.next(handle, "rr", "fetch", b"C")
        with raises_number(MODE_FORBIDS_APPEND):
            rr.append(handle, DOWN)
    assert file().read_bytes() == before


# record


def test_record_takes_and_does_not_serve() -> None:
    with opened(mode="record") as handle:
        rr.append(handle, PING)
        with raises_number(MODE_FORBIDS_NEXT):
            rr.next(handle, "rr", "fetch", b"C")
        assert counts(handle)["entries"] == 1
    assert contents() == [PING]


def test_record_refuses_a_cassette_that_is_there() -> None:
    write(PING)
    before = file().read_bytes()
    with raises_number(OPEN_FAILED) as caught:
        rr.open({"path": "smoke", "mode": "record"})
    assert "rewrite" in caught.value.hint
    assert "record_missing" in caught.value.hint
    assert file().read_bytes() == before


def test_record_appends_when_told_to() -> None:
    write(PING)
    with opened(mode="record", append=True) as handle:
        assert counts(handle)["entries"] == 1
        with raises_number(MODE_FORBIDS_NEXT):
            rr.next(handle, "rr", "fetch", b"C")
        rr.append(handle, DOWN)
    assert contents() == [PING, DOWN]


def test_record_append_makes_a_cassette_that_is_not_there() -> None:
    write(PING, append=True)
    assert contents() == [PING]


def test_record_overwrites_when_told_to() -> None:
    write(PING)
    with opened(mode="record", overwrite=True) as handle:
        assert counts(handle)["entries"] == 0
        rr.append(handle, DOWN)
    assert contents() == [DOWN]


def test_record_without_an_append_makes_an_empty_cassette() -> None:
    write()
    assert contents() == []


# replay


def test_replay_needs_a_cassette() -> None:
    with raises_number(OPEN_FAILED) as caught:
        rr.open({"path": "smoke", "mode": "replay"})
    assert "no recording" in caught.value.message


def test_replay_serves_and_takes_nothing() -> None:
    write(PING, DOWN)
    before = file().read_bytes()
    with opened(mode="replay") as handle:
        assert rr.next(handle, "rr", "fetch", b"C") == PING
        with raises_number(MODE_FORBIDS_APPEND):
            rr.append(handle, DOWN)
        with raises_number(MISS):
            rr.next(handle, "rr", "fetch", b"C")
        assert (counts(handle)["entries"], counts(handle)["used"]) == (2, 1)
    assert file().read_bytes() == before


def test_replay_is_the_default() -> None:
    write(PING)
    with opened() as handle:
        assert counts(handle)["mode"] == 2
        assert rr.next(handle, "rr", "fetch", b"C") == PING


# record_missing


def test_record_missing_starts_a_cassette_that_is_not_there() -> None:
    with opened(mode="record_missing") as handle:
        with raises_number(MISS):
            rr.next(handle, "rr", "fetch", b"C")
        rr.append(handle, PING)
    assert contents() == [PING]


def test_record_missing_serves_what_is_there_and_adds_what_is_not() -> None:
    write(PING)
    with opened(mode="record_missing") as handle:
        assert rr.next(handle, "rr", "fetch", b"C") == PING
        with raises_number(MISS):
            rr.next(handle, "http", "get", b"/down")
        rr.append(handle, DOWN)
        assert (counts(handle)["entries"], counts(handle)["used"]) == (2, 1)
    assert contents() == [PING, DOWN]


@pytest.mark.parametrize("there", [True, False])
def test_record_missing_does_not_serve_what_it_has_just_taken(there: bool) -> None:
    if there:
        write(DOWN)
    with opened(mode="record_missing") as handle:
        rr.append(handle, PING)
        with raises_number(MISS):
            rr.next(handle, "rr", "fetch", b"C")


def test_record_missing_serves_nothing_twice() -> None:
    write(PING)
    with opened(mode="record_missing") as handle:
        rr.next(handle, "rr", "fetch", b"C")
        with raises_number(MISS) as caught:
            rr.next(handle, "rr", "fetch", b"C")
    assert "recorded 1 time(s), and all have been used" in caught.value.message


def test_record_missing_without_an_append_leaves_the_file_alone() -> None:
    write(PING)
    before = file().read_bytes()
    with opened(mode="record_missing") as handle:
        rr.next(handle, "rr", "fetch", b"C")
    assert file().read_bytes() == before


@pytest.mark.parametrize("match_mode", ["lookup", "transcript"])
def test_record_missing_keeps_the_order_of_the_file(match_mode: str) -> None:
    last = rr.Entry(kind="rr", op="fetch", key=b"D", resp=b"never asked for")
    new = rr.Entry(kind="rr", op="fetch", key=b"E", resp=b"new")
    write(PING, DOWN, last)
    with opened(mode="record_missing", match_mode=match_mode) as handle:
        rr.next(handle, "rr", "fetch", b"C")
        rr.append(handle, new)
        rr.next(handle, "http", "get", b"/down")
    where_it_was_missing = [PING, new, DOWN, last]
    assert contents() == (
        [PING, DOWN, last, new] if match_mode == "lookup" else where_it_was_missing
    )


# rewrite


def test_rewrite_takes_and_does_not_serve() -> None:
    write(PING)
    with opened(mode="rewrite") as handle:
        assert counts(handle)["entries"] == 0
        with raises_number(MODE_FORBIDS_NEXT):
            rr.next(handle, "rr", "fetch", b"C")
        rr.append(handle, DOWN)
        assert contents() == [PING]  # the old one, until the end
        assert counts(handle)["mode"] == 4
    assert contents() == [DOWN]


def test_rewrite_without_an_append_keeps_the_old_cassette() -> None:
    write(PING)
    before = file().read_bytes()
    with opened(mode="rewrite"):
        pass
    assert file().read_bytes() == before
    assert sorted(file().parent.iterdir()) == [file()]


def test_rewrite_makes_a_cassette_that_is_not_there_only_when_something_is_appended() -> None:
    with opened(mode="rewrite"):
        pass
    assert not file().exists()
    write(PING, mode="rewrite")
    assert contents() == [PING]


# all


@pytest.mark.parametrize("number, mode", list(enumerate(MODES)))
def test_stats_have_the_number_of_the_mode(number: int, mode: str) -> None:
    if mode == "replay":
        write(PING)
    with opened(mode=mode, match_mode="transcript") as handle:
        assert (counts(handle)["mode"], counts(handle)["match_mode"]) == (number, 1)


def test_stats_are_json_in_a_fixed_order() -> None:
    write(PING)
    with opened() as handle:
        assert rr.stats(handle).startswith(
            b'{"v":1,"mode":2,"match_mode":0,"cassettes":1,"entries":1,"used":0,"bytes":'
        )
