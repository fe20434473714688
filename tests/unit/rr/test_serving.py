"""Which entry answers, and what it says when none does."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import rr
from reenact.errors import PolicyRefused, UsageError
from reenact.rr.entries import (
    CFG_INVALID,
    ENTRY_INVALID,
    KIND_MISMATCH,
    MISS,
    OP_MISMATCH,
    OPEN_FAILED,
    TRUNCATED,
)
from tests.unit.rr.cassettes import (
    DOWN,
    PING,
    contents,
    counts,
    file,
    opened,
    policy,
    raises_number,
    write,
)


def entry(kind: str, op: str, key: bytes, resp: bytes = b"") -> rr.Entry:
    return rr.Entry(kind=kind, op=op, key=key, resp=resp)


# lookup


def test_lookup_serves_the_earliest_unused_with_the_same_kind_op_and_key() -> None:
    one, two = entry("rr", "fetch", b"C", b"1"), entry("rr", "fetch", b"C", b"2")
    write(one, DOWN, two)
    with opened() as handle:
        assert rr.next(handle, "http", "get", b"/down") == DOWN
        assert rr.next(handle, "rr", "fetch", b"C") == one
        assert rr.next(handle, "rr", "fetch", b"C") == two


@pytest.mark.parametrize(
    "asked",
    [("rr", "fetch", b"D"), ("rr", "fetch2", b"C"), ("db", "fetch", b"C"), ("rr", "fetch", b"")],
)
def test_lookup_compares_kind_op_and_key(asked: tuple[str, str, bytes]) -> None:
    write(PING)
    with opened() as handle, raises_number(MISS) as caught:
        rr.next(handle, *asked)
    assert "never recorded" in caught.value.message


def test_lookup_tells_ops_with_the_same_key_apart() -> None:
    first, second = entry("rr", "one", b"C"), entry("rr", "two", b"C")
    write(first, second)
    with opened() as handle:
        assert rr.next(handle, "rr", "two", b"C") == second
        assert rr.next(handle, "rr", "one", b"C") == first


def test_an_empty_key_is_a_key_in_a_lookup() -> None:
    write(PING, entry("rr", "fetch", b"", b"keyless"))
    with opened() as handle:
        assert rr.next(handle, "rr", "fetch", b"").resp == b"keyless"


def test_a_message_does_not_tell_the_key() -> None:
    write(PING)
    with opened() as handle, raises_number(MISS) as caught:
        rr.next(handle, "rr", "fetch", b"a customer")
    assert "customer" not in caught.value.message + caught.value.hint
    assert "10 bytes" in caught.value.message


# transcript


def test_a_transcript_serves_in_order_and_ends() -> None:
    write(PING, DOWN)
    with opened(match_mode="transcript") as handle:
        assert rr.next(handle, "rr", "fetch", b"C") == PING
        assert rr.next(handle, "http", "get", b"") == DOWN
        with raises_number(MISS) as caught:
            rr.next(handle, "http", "get", b"")
        assert "all 2 entries have been used" in caught.value.message
        assert counts(handle)["used"] == 2


@pytest.mark.parametrize(
    "asked, number",
    [
        (("http", "fetch", b"C"), KIND_MISMATCH),
        (("http", "get", b"D"), KIND_MISMATCH),
        (("rr", "get", b"C"), OP_MISMATCH),
        (("rr", "get", b"D"), OP_MISMATCH),
        (("rr", "fetch", b"D"), MISS),
    ],
)
def test_a_transcript_stays_where_it_is_on_a_mismatch(
    asked: tuple[str, str, bytes], number: int
) -> None:
    write(PING, DOWN)
    with opened(match_mode="transcript") as handle:
        with raises_number(number) as caught:
            rr.next(handle, *asked)
        assert "event 1 of smoke.jsonl" in caught.value.message
        assert counts(handle)["used"] == 0
        assert rr.next(handle, "rr", "fetch", b"C") == PING


def test_record_missing_can_add_in_the_middle_of_a_transcript() -> None:
    new = entry("http", "get", b"new", b"live")
    write(PING, DOWN)
    with opened(mode="record_missing", match_mode="transcript") as handle:
        rr.next(handle, "rr", "fetch", b"C")
        with raises_number(MISS):
            rr.next(handle, new.kind, new.op, new.key)
        rr.append(handle, new)
        assert rr.next(handle, "http", "get", b"") == DOWN
    assert contents() == [PING, new, DOWN]


# What is asked


@pytest.mark.parametrize("kind, op, key", [(b"rr", b"fetch", "C"), ("rr", "fetch", b"C")])
def test_text_and_bytes_ask_for_the_same(kind: Any, op: Any, key: Any) -> None:
    write(PING)
    with opened() as handle:
        assert rr.next(handle, kind, op, key) == PING


@pytest.mark.parametrize(
    "asked", [(1, "op", b""), ("rr", None, b""), ("rr", "op", 3), (b"\xff", "op", b"")]
)
def test_asking_with_something_else_is_a_mistake_of_the_program(asked: Any) -> None:
    write(PING)
    with opened() as handle, pytest.raises(UsageError) as caught:
        rr.next(handle, *asked)
    assert caught.value.hint


def test_a_secret_in_the_key_matches_another_one() -> None:
    url = "GET https://example.com/?access_token="
    write(entry("http", "get", f"{url}first-of-them".encode(), b"ok"))
    with opened() as handle:
        found = rr.next(handle, "http", "get", f"{url}another-one")
    assert found.resp == b"ok"
    assert b"first-of-them" not in file().read_bytes()


def test_threads_share_a_handle_and_each_entry_is_served_once() -> None:
    write(*(entry("rr", "fetch", b"same", str(number).encode()) for number in range(64)))
    with opened() as handle, ThreadPoolExecutor(8) as pool:
        served = list(pool.map(lambda _: rr.next(handle, "rr", "fetch", b"same").resp, range(64)))
        assert counts(handle)["used"] == 64
    assert sorted(map(int, served)) == list(range(64))


# What cannot be opened


@pytest.mark.parametrize(
    "path",
    ["", "/abs", "../up", "a//b", "a/./b", "a\\b", "C:x", "nul\0", ".reenact/x", "a/.x07_rr"],
)
@pytest.mark.parametrize("mode", ["off", "record", "replay"])
def test_an_unsafe_path_is_a_cfg_that_is_invalid(path: str, mode: str) -> None:
    with raises_number(CFG_INVALID):
        rr.open({"path": path, "mode": mode})


def test_a_symlink_out_of_the_cassettes_is_refused(root: Path, tmp_path_factory: Any) -> None:
    file().parent.mkdir(parents=True)
    (file().parent / "out").symlink_to(tmp_path_factory.mktemp("elsewhere"))
    with raises_number(CFG_INVALID):
        rr.open({"path": "out/smoke", "mode": "record"})


def test_a_damaged_cassette_cannot_be_opened() -> None:
    write(PING)
    file().write_bytes(file().read_bytes().replace(b"PONG", b"PANG"))
    for mode in ("replay", "record_missing"):
        with raises_number(OPEN_FAILED):
            rr.open({"path": "smoke", "mode": mode})
    assert b"PANG" in file().read_bytes()


def test_a_cassette_that_is_cut_short_is_told_apart() -> None:
    write(PING, DOWN)
    whole = file().read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in (b"", whole[:-1], whole[:-40], b"".join(lines[:-1]), lines[0]):
        file().write_bytes(cut)
        for mode in ("replay", "record_missing"):
            with raises_number(TRUNCATED):
                rr.open({"path": "smoke", "mode": mode})
        assert file().read_bytes() == cut


def test_a_folder_is_not_a_cassette() -> None:
    file().mkdir(parents=True)
    for mode in ("record", "replay", "record_missing", "rewrite"):
        with raises_number(OPEN_FAILED):
            rr.open({"path": "smoke", "mode": mode})


def test_a_cassette_that_is_being_written_cannot_be_opened() -> None:
    with opened(mode="record"):
        for mode in ("record", "replay", "record_missing", "rewrite"):
            with raises_number(OPEN_FAILED):
                rr.open({"path": "smoke", "mode": mode})


def test_a_cassette_whose_blob_is_gone_cannot_be_opened() -> None:
    write(entry("rr", "fetch", b"C", b"x" * 100_000))
    for blob in file().with_name("smoke.jsonl.blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    with raises_number(OPEN_FAILED):
        rr.open({"path": "smoke"})


def _record_a_tool_call() -> None:
    file().parent.mkdir(parents=True)
    with reenact.start_recording(file()) as recording:
        recording.add(reenact.ToolCall(name="search", args={}, call_id="call_1"))


def test_a_cassette_of_a_session_is_refused_whole() -> None:
    _record_a_tool_call()
    with raises_number(ENTRY_INVALID) as caught:
        rr.open({"path": "smoke"})
    assert "event 1 of smoke.jsonl is a tool_call" in caught.value.message
    assert "reenact.session" in caught.value.hint


def test_nothing_is_left_behind_when_the_contents_are_refused() -> None:
    _record_a_tool_call()
    before = file().read_bytes()
    for cfg in ({"mode": "record_missing"}, {"mode": "record", "append": True}):
        with raises_number(ENTRY_INVALID):
            rr.open({"path": "smoke", **cfg})
    assert file().read_bytes() == before
    assert sorted(file().parent.iterdir()) == [file()]


# Policies


def test_a_mode_that_the_index_does_not_allow_is_refused(root: Path) -> None:
    policy(root, modes=["replay"])
    with pytest.raises(PolicyRefused, match="mode record"):
        rr.open({"path": "smoke", "mode": "record"})


def test_kinds_and_ops_that_the_index_does_not_list_are_refused(root: Path) -> None:
    policy(root, kinds=["http", "rr"], operations=["fetch*"])
    with opened(mode="record_missing") as handle:
        rr.append(handle, PING)
        for kind, op in (("db", "fetch"), ("rr", "get")):
            with pytest.raises(PolicyRefused):
                rr.append(handle, entry(kind, op, b""))
            with pytest.raises(PolicyRefused):
                rr.next(handle, kind, op, b"")
        assert counts(handle)["entries"] == 1


def test_a_policy_that_allows_no_capability_does_not_stop_a_cassette(root: Path) -> None:
    policy(root, {"capabilities": {}})
    write(PING)
    assert contents() == [PING]


def test_a_policy_may_ask_for_a_transcript_and_a_mode(root: Path) -> None:
    policy(root, {"match": "transcript", "mode": "record_missing"})
    with opened() as handle:
        assert (counts(handle)["mode"], counts(handle)["match_mode"]) == (3, 1)
    with opened(match_mode="lookup", mode="replay") as handle:
        assert (counts(handle)["mode"], counts(handle)["match_mode"]) == (2, 0)
