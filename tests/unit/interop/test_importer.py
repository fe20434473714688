"""Foreign calls on a tape of ours: the keys, the times, the secrets, and all or nothing."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import reenact
from reenact import rr
from reenact.boundaries.http.wire import Request, call_of
from reenact.errors import BudgetExceeded, RecordingExists
from reenact.policy.model import DEFAULT, Budgets, NetRules, Pinned, Policy
from reenact.store.verify import verify
from reenact.testing import memory_session
from tests.unit.interop.foreign_files import events_of, exchange, losses_of, taken

SECRET = "sk-" + "Abcd1234" * 5


def test_a_call_has_the_key_that_our_recorder_gives_it(tmp_path: Path) -> None:
    done = taken(
        [exchange("POST", "https://A.example:443/x?b=2&a=1", posted=b"{}")], tmp_path / "t"
    )
    (event,) = events_of(tmp_path / "t")
    with memory_session() as session:
        request = Request(method="POST", url="https://a.example/x?a=1&b=2", body=b"{}")
        assert event.data["key"] == session.machine.key(call_of(session, request))
    assert (done.calls, done.hidden, losses_of(done)) == (1, 0, {})
    assert verify(tmp_path / "t").manifest.environment["importedFrom"] == "vcr"


def test_the_same_file_gives_the_same_recording(tmp_path: Path) -> None:
    items = [exchange(body=b"a"), exchange(url="https://a.example/y", ts=None)]
    for name in ("one", "two"):
        taken(items, tmp_path / name)
    one, two = (verify(tmp_path / name).manifest for name in ("one", "two"))
    assert one.integrity.content_hash == two.integrity.content_hash
    assert (one.capture_id, one.created_at) == (two.capture_id, two.created_at)


def test_times_are_those_of_the_file(tmp_path: Path) -> None:
    taken(
        [exchange(ts=None), exchange(ts=5_000), exchange(ts=None), exchange(ts=7_000)],
        tmp_path / "t",
    )
    assert [event.ts for event in events_of(tmp_path / "t")] == [5_000, 5_000, 5_000, 7_000]


def test_secrets_are_hidden_and_counted(tmp_path: Path) -> None:
    sent = (("Authorization", f"Bearer {SECRET}"),)
    one = exchange(url=f"https://a.example/x?api_key={SECRET}", sent=sent, body=SECRET.encode())
    done = taken([one], tmp_path / "t")
    assert done.hidden >= 3
    assert SECRET not in (tmp_path / "t").read_text("utf-8")
    kept = taken([one], tmp_path / "plain", redaction="none")
    assert (kept.hidden, SECRET in (tmp_path / "plain").read_text("utf-8")) == (0, True)


def test_a_coded_body_that_cannot_be_looked_into_is_a_loss(tmp_path: Path) -> None:
    """Behind a fault in the middle there may be anything."""
    stored = gzip.compress(f"a {SECRET} b".encode() * 4_000, 0)
    broken = stored[:65_000] + b"\xff" * 2_000 + stored[67_000:]
    one = exchange(headers=(("Content-Encoding", "gzip"),), body=broken)
    done = taken([one], tmp_path / "t")
    assert losses_of(done) == {"body_hidden": 1}
    assert SECRET not in (tmp_path / "t").read_text("utf-8")


def test_what_is_there_is_not_replaced_unasked(tmp_path: Path) -> None:
    taken([exchange()], tmp_path / "t")
    before = (tmp_path / "t").read_bytes()
    with pytest.raises(RecordingExists):
        taken([], tmp_path / "t")
    assert (tmp_path / "t").read_bytes() == before
    taken([], tmp_path / "t", replace=True)
    assert events_of(tmp_path / "t") == []


def test_budgets_hold_and_nothing_is_left(tmp_path: Path) -> None:
    policy = Policy(id="small", budgets=Budgets(entries=1))
    with pytest.raises(BudgetExceeded):
        taken([exchange(), exchange()], tmp_path / "t", pinned=Pinned.of(policy))
    assert list(tmp_path.iterdir()) == []


def test_who_may_be_called_does_not_matter(tmp_path: Path) -> None:
    policy = Policy(id="closed", net=NetRules(domains=()), capabilities={})
    assert taken([exchange()], tmp_path / "t", pinned=Pinned.of(policy)).calls == 1


def test_entries_are_those_of_the_low_level_api(tmp_path: Path) -> None:
    entries = [
        rr.Entry(kind="db", op="q", key=b"\xff", req=b"a", resp=b"\x00", err=7, latency_ticks=3),
        rr.Entry(kind="rr", op="get", key=SECRET.encode(), resp=b"b"),
    ]
    target = tmp_path / ".reenact" / "cassettes" / "c.jsonl"
    done = taken(entries, target, "rrbin")
    assert (done.calls, losses_of(done)) == (1, {"key_is_secret": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REENACT_ROOT", str(tmp_path))
        with rr.scope({"path": "c.jsonl", "mode": "replay"}) as handle:
            assert rr.next(handle, "db", "q", b"\xff") == entries[0]


def test_a_tape_without_draws_leaves_the_clock_alone(tmp_path: Path) -> None:
    """The file says nothing of the program's clock and chance: they are what they are."""
    import random
    import time

    taken([], tmp_path / "t")
    with reenact.session(tape=tmp_path / "t", strict=True, policy=DEFAULT, root=tmp_path):
        assert time.time() > 0
        assert 0 <= random.random() < 1
