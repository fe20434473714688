"""Recorded answers, piece by piece."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import rr
from reenact.errors import DivergenceError, PolicyRefused, UsageError
from reenact.rr.entries import (
    ENTRY_INVALID,
    MISS,
    MODE_FORBIDS_NEXT,
    OP_MISMATCH,
    STREAM_CFG_INVALID,
    STREAM_OVER_IN_BYTES,
    STREAM_OVER_ITEMS,
    STREAM_OVER_OUT_BYTES,
)
from tests.unit.rr.cassettes import contents, file, policy, raises_number, write

OP = "std.stream.src.rr_send_v1"
PIECES = (b"one", b"t", b"\xff\x00three")
SENT = rr.Entry(
    kind="rr",
    op=OP,
    key=b"K",
    resp=b"".join(PIECES),
    cuts=tuple(accumulate(map(len, PIECES[:-1]))),
)
WHOLE = rr.Entry(kind="rr", op=OP, key=b"L", resp=b"abcdefg", err=7)


def _scope(**cfg: Any) -> rr.Scope:
    return rr.scope({"path": "smoke", "mode": "replay", **cfg})


# In a scope


def test_pieces_come_as_they_were_recorded() -> None:
    write(SENT, WHOLE)
    assert contents() == [SENT, WHOLE]
    with _scope() as handle:
        stream = rr.stream("K")
        assert stream.err == 0
        assert tuple(stream) == PIECES
        assert list(stream) == []
        other = rr.stream(b"L", chunk_max_bytes=3)
        assert list(other) == [b"abc", b"def", b"g"]
        assert other.err == 7
        assert b'"used":2' in rr.stats(handle)


def test_larger_pieces_are_cut_and_smaller_ones_are_not_joined() -> None:
    write(SENT)
    with _scope():
        assert list(rr.stream("K", chunk_max_bytes=2)) == [
            *(b"on", b"e", b"t"),
            *(b"\xff\x00", b"th", b"re", b"e"),
        ]


def test_kind_and_op_are_those_of_the_entry() -> None:
    write(rr.Entry(kind="http", op="get", key=b"/x", resp=b"body"), WHOLE)
    with _scope():
        with raises_number(MISS):
            next(rr.stream("/x"))
        assert list(rr.stream("/x", kind="http", op="get")) == [b"body"]
        with raises_number(MISS):
            next(rr.stream("/x", kind="http", op="get"))
    with _scope(match_mode="transcript"):
        with raises_number(OP_MISMATCH):
            next(rr.stream("/x", kind="http"))
        assert list(rr.stream("/x", kind="http", op="get")) == [b"body"]


def test_nothing_is_taken_before_the_first_piece() -> None:
    write(SENT)
    with _scope():
        rr.stream("K").close()
        with rr.stream("K") as stream:
            assert next(stream) == PIECES[0]
        assert list(stream) == []
        with raises_number(MISS):
            next(rr.stream("K"))


def test_a_task_takes_pieces_and_lets_others_run() -> None:
    write(SENT, WHOLE)
    order: list[Any] = []

    async def read(key: str) -> None:
        async with rr.stream(key, chunk_max_bytes=4) as stream:
            async for piece in stream:
                order.append((key, piece))

    async def both() -> None:
        async with _scope():
            await asyncio.gather(read("K"), read("L"))

    asyncio.run(both())
    assert [piece for key, piece in order if key == "L"] == [b"abcd", b"efg"]
    assert [key for key, _ in order[:4]] == ["K", "L", "K", "L"]


def test_a_cancelled_task_stops_between_two_pieces() -> None:
    write(SENT)
    seen: list[bytes] = []

    async def read() -> None:
        async with _scope():
            async for piece in rr.stream("K"):
                seen.append(piece)
                task = asyncio.current_task()
                assert task is not None
                task.cancel()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(read())
    assert seen == [PIECES[0]]


@pytest.mark.parametrize(
    "limit, number, seen",
    [
        ({"max_in_bytes": 3}, STREAM_OVER_IN_BYTES, [b"one"]),
        ({"max_out_bytes": 5, "chunk_max_bytes": 1}, STREAM_OVER_OUT_BYTES, [*b"onet", 255]),
        ({"max_items": 2}, STREAM_OVER_ITEMS, [b"one", b"t"]),
    ],
)
def test_limits_are_errors_with_numbers(
    limit: dict[str, Any], number: int, seen: list[Any]
) -> None:
    write(SENT)
    expected = [bytes([one]) if isinstance(one, int) else one for one in seen]
    with _scope():
        stream, found = rr.stream("K", **limit), []
        with raises_number(number):
            for piece in stream:
                found.append(piece)
        assert found == expected
        assert list(stream) == []


def test_limits_that_are_just_reached_are_fine() -> None:
    write(SENT)
    total = sum(map(len, PIECES))
    with _scope():
        stream = rr.stream("K", max_in_bytes=total, max_out_bytes=total, max_items=3)
        assert tuple(stream) == PIECES


@pytest.mark.parametrize(
    "limits",
    [
        {"chunk_max_bytes": 0},
        {"chunk_max_bytes": -1},
        {"max_in_bytes": 0},
        {"max_out_bytes": 0},
        {"max_items": 0},
        {"max_items": True},
        {"bufread_cap_bytes": 0},
        {"chunk_max_bytes": 64, "bufread_cap_bytes": 63},
    ],
)
def test_limits_that_make_no_sense_are_refused_at_once(limits: dict[str, Any]) -> None:
    with raises_number(STREAM_CFG_INVALID):
        rr.stream("K", **limits)


@pytest.mark.parametrize("mode", ["off", "record", "rewrite"])
def test_a_mode_that_serves_nothing_streams_nothing(mode: str) -> None:
    with _scope(mode=mode), raises_number(MODE_FORBIDS_NEXT):
        next(rr.stream("K"))


def test_without_a_cassette_there_is_nothing_to_stream() -> None:
    with pytest.raises(UsageError, match="nothing to stream from") as found:
        next(rr.stream("K"))
    assert "reenact.session" in found.value.hint
    with pytest.raises(UsageError, match="text or bytes"):
        rr.stream(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("cuts", [(2, 1), (-1,), ("1",), 3, (True,)])
def test_cuts_that_make_no_sense_are_no_entry(cuts: Any) -> None:
    with _scope(mode="record") as handle, raises_number(ENTRY_INVALID):
        rr.append(handle, {"kind": "rr", "op": OP, "resp": "abc", "cuts": cuts})


def test_a_redacted_answer_is_cut_where_it_still_can_be() -> None:
    secret = b"ghp_" + b"a1B2" * 9
    resp = b"a " + secret + b" z"
    write(rr.Entry(kind="rr", op=OP, key=b"K", resp=resp, cuts=(1, len(resp) - 1)))
    with _scope():
        assert list(rr.stream("K")) == [b"a", b" ***REDACTED*** z"]


# In a session


def _record(**settings: Any) -> None:
    with reenact.session("calls", mode="record", **settings) as session:
        list(session.stream("tick", {"n": 3}, lambda: iter(["a", b"b\xff", {"x": [1]}])))
        session.call("ping", {}, lambda: "PONG", capability="net.fetch")
        session.call("add", {"a": 1}, lambda: {"sum": 2})
        list(session.stream("tick", {"n": 1}, lambda: iter([b"again"])))


def test_a_session_gives_its_calls_by_operation_in_their_order() -> None:
    _record()
    with reenact.session("calls", mode="replay", strict=True) as session:
        assert list(rr.stream("ping")) == [b"PONG"]
        assert list(rr.stream("tick")) == [b"a", b"b\xff", b'{"x":[1]}']
        assert list(rr.stream("tick", kind="network", op="tick")) == [b"again"]
        with raises_number(MISS):
            next(rr.stream("tick"))
        with raises_number(MISS):
            next(rr.stream("add", kind="network"))
        assert list(rr.stream("add", kind="tool")) == [b'{"sum":2}']
    assert (session.report().status, session.report().served) == ("ok", 4)


def test_a_session_gives_a_call_by_its_recorded_key() -> None:
    _record()
    lines = [
        json.loads(line)["data"] for line in file("calls").read_text("utf-8").split("\n")[1:-2]
    ]
    keys = [data["key"] for data in lines if data.get("op") == "ping"]
    with reenact.session("calls", mode="replay", strict=True, unused="allow"):
        assert list(rr.stream(keys[0])) == [b"PONG"]


def test_calls_after_a_stream_are_served_as_always() -> None:
    _record()

    async def read() -> None:
        async with reenact.session("calls", mode="replay", strict=True) as session:
            async for piece in rr.stream("tick"):
                assert piece == b"a"
                break
            assert session.call("ping", {}, capability="net.fetch") == "PONG"
            assert session.call("add", {"a": 1}) == {"sum": 2}
            again = session.aio.stream("tick", {"n": 1})
            assert [piece async for piece in again] == [b"again"]
        assert session.report().status == "ok"

    asyncio.run(read())


def test_what_is_not_consumed_is_left_over() -> None:
    _record()
    with (
        pytest.raises(DivergenceError, match="ping"),
        reenact.session("calls", mode="replay", strict=True),
    ):
        for key in ("tick", "tick", "add"):
            list(rr.stream(key))


def test_a_transcript_is_taken_in_order() -> None:
    _record(match="transcript")
    with reenact.session("calls", mode="replay", match="transcript", strict=True):
        with raises_number(MISS):
            next(rr.stream("ping"))
        for key in ("tick", "ping", "add", "tick"):
            assert list(rr.stream(key))


@pytest.mark.parametrize("mode", ["record", "rewrite", "record_missing", "off"])
def test_a_session_that_does_not_replay_streams_nothing(mode: str) -> None:
    with reenact.session("new", mode=mode), raises_number(MODE_FORBIDS_NEXT):
        next(rr.stream("tick"))


def test_a_recorded_failure_comes_after_the_pieces() -> None:
    def breaks() -> Any:
        yield "a"
        raise TimeoutError("slow today")

    with reenact.session("broken", mode="record") as session, pytest.raises(TimeoutError):
        list(session.stream("tick", {}, breaks))
    with reenact.session("broken", mode="replay", strict=True):
        stream = rr.stream("tick")
        assert next(stream) == b"a"
        with pytest.raises(TimeoutError, match="slow today"):
            next(stream)


def test_the_policy_holds(root: Path) -> None:
    _record()
    policy(root, kinds=["tool"])
    with reenact.session("calls", mode="replay", strict=True, unused="allow"):
        with pytest.raises(PolicyRefused, match="network"):
            next(rr.stream("ping"))
        assert list(rr.stream("add")) == [b'{"sum":2}']


def test_threads_take_each_call_once() -> None:
    with reenact.session("many", mode="record") as session:
        for number in range(40):
            session.call("ping", {"n": number}, partial(int, number), capability="net.fetch")
    with (
        reenact.session("many", mode="replay", strict=True, match="lookup"),
        ThreadPoolExecutor(4) as pool,
    ):
        found = pool.map(lambda _: b"".join(rr.stream("ping")), range(40))
        assert sorted(map(int, found)) == list(range(40))


def test_a_scope_inside_a_session_is_what_is_streamed_from() -> None:
    _record()
    write(SENT)
    with reenact.session("calls", mode="replay", strict=True, unused="allow"):
        with _scope():
            assert tuple(rr.stream("K")) == PIECES
        assert list(rr.stream("ping")) == [b"PONG"]


DOCUMENTED: dict[str, Any] = {
    "chunk_max_bytes": 64,
    "bufread_cap_bytes": 64,
    "max_in_bytes": 1048576,
    "max_out_bytes": 1048576,
    "max_items": 1048576,
}
"""The limits in the streaming example of X07's page."""


def test_entries_of_a_cassette_are_streamed_in_a_session_without_a_capability() -> None:
    write(rr.Entry(kind="rr", op="std.rr.fetch_v1", key=b"K", resp=b"other"), SENT, WHOLE)
    with reenact.session("smoke", mode=2, strict=True, unused="allow") as session:
        stream = rr.stream("K", **DOCUMENTED)
        assert tuple(stream) == PIECES
        failed = rr.stream("L", **DOCUMENTED)
        assert (list(failed), failed.err) == ([b"abcdefg"], 7)
        assert list(rr.stream("K", op="std.rr.fetch_v1")) == [b"other"]
        with raises_number(MISS):
            next(rr.stream("K"))
    assert session.report().status == "ok"


def test_entries_of_kinds_that_need_a_capability_elsewhere_need_none() -> None:
    write(rr.Entry(kind="process", op="std.os.process.run_v1", key=b"K", resp=b"done"))
    only = reenact.Policy(id="mine", capabilities={})
    with reenact.session("smoke", mode="replay", policy=only):
        assert list(rr.stream("K")) == [b"done"]


def test_kinds_and_operations_of_the_policy_hold_for_entries_in_a_session(root: Path) -> None:
    write(SENT, WHOLE)
    policy(root, kinds=["http"])
    with (
        reenact.session("smoke", mode="replay", unused="allow"),
        pytest.raises(PolicyRefused, match="the kind rr"),
    ):
        next(rr.stream("K"))
    policy(root, kinds=["rr"], operations=["std.rr.fetch_v1"])
    with (
        reenact.session("smoke", mode="replay", unused="allow"),
        pytest.raises(PolicyRefused, match="the operation std"),
    ):
        next(rr.stream("K"))


@pytest.mark.parametrize("mode", ["record", "replay"])
def test_the_documented_example_runs_in_a_session(root: Path, mode: str) -> None:
    """X07's page: with_policy, mode 2, a stream of the cassette smoke.rrbin."""
    write(WHOLE, path="smoke.rrbin")
    policy(root)
    with reenact.session("talk", mode="record") as session:
        session.call("ping", {}, lambda: "PONG", capability="net.fetch")
    with reenact.session("talk", mode=mode, overwrite=mode == "record", unused="allow"):
        with rr.with_policy("default", "smoke.rrbin", 2):
            doc = b"".join(rr.stream("L", **DOCUMENTED))
        assert doc == b"abcdefg"
