"""What is written: budgets, secrets, failures."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact import rr
from reenact.errors import RrError
from reenact.rr.entries import (
    ENTRY_INVALID,
    MISS,
    OPEN_FAILED,
    OVER_CASSETTE_BYTES,
    OVER_ENTRIES,
    OVER_KEY_BYTES,
    OVER_REQ_BYTES,
    OVER_RESP_BYTES,
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

LIMITS = [
    ("max_entries", 1, OVER_ENTRIES),
    ("max_req_bytes", 1, OVER_REQ_BYTES),
    ("max_resp_bytes", 4, OVER_RESP_BYTES),
    ("max_key_bytes", 1, OVER_KEY_BYTES),
]
TOO_MUCH = {
    "max_entries": PING,
    "max_req_bytes": rr.Entry(kind="rr", op="fetch", req=b"CC"),
    "max_resp_bytes": rr.Entry(kind="rr", op="fetch", resp=b"PONG!"),
    "max_key_bytes": rr.Entry(kind="rr", op="fetch", key=b"CC"),
}


@pytest.mark.parametrize("name, limit, number", LIMITS)
def test_a_budget_holds_when_an_entry_is_appended(name: str, limit: int, number: int) -> None:
    with opened(mode="record", **{name: limit}) as handle:
        rr.append(handle, PING)
        with raises_number(number) as caught:
            rr.append(handle, TOO_MUCH[name])
        assert f"{name} is {limit}" in caught.value.message
        assert counts(handle)["entries"] == 1
    assert contents() == [PING]


@pytest.mark.parametrize("name, limit, number", LIMITS)
@pytest.mark.parametrize("mode", ["replay", "record_missing"])
def test_a_budget_holds_when_a_cassette_is_opened(
    name: str, limit: int, number: int, mode: str
) -> None:
    write(PING, TOO_MUCH[name])
    with raises_number(number) as caught:
        rr.open({"path": "smoke", "mode": mode, name: limit})
    assert "event 2 of smoke.jsonl" in caught.value.message


@pytest.mark.parametrize("name, number", [(name, number) for name, _, number in LIMITS])
def test_zero_means_zero(name: str, number: int) -> None:
    with opened(mode="record", **{name: 0}) as handle, raises_number(number):
        rr.append(handle, PING)


def test_the_budget_of_bytes_counts_what_is_in_the_file() -> None:
    write(PING)
    with opened() as handle:
        size = counts(handle)["bytes"]
    assert size > len(b"rrfetchCCPONG")
    with raises_number(OVER_CASSETTE_BYTES):
        rr.open({"path": "smoke", "max_cassette_bytes": size - 1})
    with opened(mode="record_missing", max_cassette_bytes=2 * size) as handle:
        rr.append(handle, PING)
        with raises_number(OVER_CASSETTE_BYTES):
            rr.append(handle, PING)
        assert counts(handle)["bytes"] == 2 * size
    with opened(max_cassette_bytes=2 * size) as handle:
        assert counts(handle)["bytes"] == 2 * size


@pytest.mark.parametrize("cfg", [{"mode": "record_missing"}, {"mode": "record", "append": True}])
def test_the_budget_of_entries_counts_what_is_in_the_file(cfg: dict[str, object]) -> None:
    write(PING)
    with opened(**cfg, max_entries=2) as handle:
        rr.append(handle, DOWN)
        with raises_number(OVER_ENTRIES):
            rr.append(handle, DOWN)


@pytest.mark.parametrize("there", [True, False])
def test_a_key_that_is_too_long_cannot_be_asked_for(there: bool) -> None:
    if there:
        write(PING)
    with opened(mode="record_missing", max_key_bytes=1) as handle:
        with raises_number(OVER_KEY_BYTES):
            rr.next(handle, "rr", "fetch", b"CC")
        if not there:
            with raises_number(MISS):
                rr.next(handle, "rr", "fetch", b"C")


def test_the_smaller_budget_of_cfg_and_policy_holds(root: Path) -> None:
    policy(root, {"budgets": {"entries": 1, "keyBytes": 9}})
    with opened(mode="record", max_entries=5, max_key_bytes=1) as handle:
        rr.append(handle, PING)
        with raises_number(OVER_ENTRIES):
            rr.append(handle, PING)
        with raises_number(OVER_KEY_BYTES):
            rr.append(handle, TOO_MUCH["max_key_bytes"])


def test_the_budget_of_a_policy_counts_the_same_bytes(root: Path) -> None:
    write(PING)
    with opened() as handle:
        size = counts(handle)["bytes"]
    policy(root, {"budgets": {"cassetteBytes": size}})
    with opened() as handle:
        assert counts(handle)["entries"] == 1
    policy(root, {"budgets": {"cassetteBytes": size - 1}})
    with raises_number(OVER_CASSETTE_BYTES):
        rr.open({"path": "smoke"})


def test_what_is_no_entry_is_not_written() -> None:
    with opened(mode="record") as handle:
        with raises_number(ENTRY_INVALID):
            rr.append(handle, {"kind": "rr", "op": "fetch", "err": "bad"})
        assert counts(handle)["entries"] == 0


# Secrets


def test_secrets_do_not_reach_the_file_and_a_served_entry_says_so() -> None:
    secret = b"password=hunter2hunter2"
    write(rr.Entry(kind="rr", op="fetch", key=b"C", req=secret, resp=secret), DOWN)
    assert b"hunter2" not in file().read_bytes()
    with opened() as handle:
        found = rr.next(handle, "rr", "fetch", b"C")
        assert (found.resp, found.redacted) == (b"password=***REDACTED***", True)
        assert not rr.next(handle, "http", "get", b"/down").redacted


def test_the_digest_of_a_response_is_that_of_what_is_written() -> None:
    write(rr.Entry(kind="rr", op="fetch", resp=b"password=1234"))
    line = file().read_text("utf-8")
    assert reenact.digest("password=***REDACTED***") in line
    assert reenact.digest("password=1234") not in line


def test_secrets_in_a_key_that_is_not_text_do_not_reach_the_file() -> None:
    write(rr.Entry(kind="rr", op="fetch", key=b"\xff password=hunter2hunter2", resp=b"ok"))
    assert b"hunter2" not in file().read_bytes()
    with opened() as handle:
        assert rr.next(handle, "rr", "fetch", b"\xff password=somebodyelse").resp == b"ok"


def test_budgets_hold_for_what_is_written() -> None:
    secret = rr.Entry(kind="rr", op="fetch", key=b"C", resp=b"password=abcd")
    with opened(mode="record", max_resp_bytes=13) as handle:
        with raises_number(OVER_RESP_BYTES):
            rr.append(handle, secret)  # the placeholder is longer than the secret
        rr.append(handle, PING)
    with opened(max_resp_bytes=13) as handle:
        assert counts(handle)["entries"] == 1


def test_a_key_that_is_nothing_but_a_secret_is_refused(root: Path) -> None:
    policy(root, {"redaction": "strict"})
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    with opened(mode="record") as handle:
        with raises_number(ENTRY_INVALID) as caught:
            rr.append(handle, rr.Entry(kind="db", op="query", key=digest.encode()))
        assert digest not in caught.value.message
        rr.append(handle, rr.Entry(kind="db", op="query", key=f"sha256:{digest}".encode()))
    with opened() as handle:
        rr.next(handle, "db", "query", f"sha256:{digest}")


# Failures


def test_a_place_that_cannot_be_written_is_refused_at_once(root: Path) -> None:
    (root / ".reenact").write_text("in the way", "utf-8")
    for mode in ("record", "record_missing", "rewrite"):
        with raises_number(OPEN_FAILED):
            rr.open({"path": "smoke", "mode": mode})


def test_an_append_that_finds_another_writer_fails_and_the_cassette_stays() -> None:
    write(PING)
    with opened(mode="record_missing") as first:
        second = rr.open({"path": "smoke", "mode": "record_missing"})
        rr.append(first, DOWN)
        with raises_number(OPEN_FAILED):
            rr.append(second, DOWN)
        with raises_number(OPEN_FAILED):
            rr.close(second)
        assert rr.close(second) == 0
    assert contents() == [PING, DOWN]


def test_a_forked_child_reads_on_and_writes_nothing() -> None:
    write(PING)
    with opened(mode="record_missing") as handle:
        rr.append(handle, DOWN)
        child = os.fork()
        if not child:
            os._exit(_in_child(handle))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert rr.next(handle, "rr", "fetch", b"C") == PING
    assert contents() == [PING, DOWN]


def _in_child(handle: int) -> int:
    served = rr.next(handle, "rr", "fetch", b"C") == PING
    try:
        rr.append(handle, DOWN)
    except RrError as error:
        told = error.number == OPEN_FAILED and "was forked from" in error.message
        return 0 if served and told and rr.close(handle) == 1 else 2
    return 3


class _Slow(dict[str, Any]):
    """An entry that is being looked at, under the lock of the cassette, until it is let go."""

    def __init__(self) -> None:
        super().__init__(kind="rr", op="fetch")
        self.looked, self.go = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.looked.set()
        assert self.go.wait(60)
        return super().__iter__()


def test_a_forked_child_does_not_wait_for_a_thread_that_is_not_there() -> None:
    entry = _Slow()
    with opened(mode="record") as handle:
        thread = threading.Thread(target=rr.append, args=(handle, entry))
        thread.start()
        assert entry.looked.wait(60)
        child = os.fork()
        if not child:
            signal.alarm(30)  # ends a child that hangs
            os._exit(0 if counts(handle)["entries"] == 0 else 2)
        entry.go.set()
        thread.join()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert counts(handle)["entries"] == 1
