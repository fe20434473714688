"""Killed with -9 before each step that it takes on disk, and started again: nothing is lost,
nothing is run twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reenact.exchange.client.command_journal import Journal, ReplayEnd
from reenact.exchange.client.ingest import prepare_item
from reenact.exchange.client.interface import ReplayJob
from reenact.exchange.client.spool import DeadLetters, Spool
from reenact.exchange.client.workers import Notices
from reenact.store.pack import unpack
from tests.integration.exchange.client_helpers import (
    CountingRunner,
    a_capture,
    an_exchange,
    has_started,
    linked,
)
from tests.integration.exchange.killing import killed_at_each_step
from tests.integration.exchange.protocol_server import ProtocolServer

Tell = Callable[[str], None]
NOWHERE = "http://127.0.0.1:9"


def test_what_was_offered_is_there_after_a_kill(tmp_path: Path) -> None:
    def work(folder: Path, tell: Tell) -> None:
        with linked(NOWHERE, folder, start=False) as link:
            for number in range(2):
                place = a_capture(link.place(), 1)
                tell(f"begins-{number}")
                link.offer(an_exchange(f"ex-{number}"), place)
                tell(f"ex-{number}")

    steps = 0
    for folder, told in killed_at_each_step(lambda n: made(tmp_path / f"{n}"), work):
        steps += 1
        found = sent_of(folder)
        offered = [one for one in told if one.startswith("ex")]
        begun = [f"ex-{one[-1]}" for one in told if one.startswith("begins")]
        assert found in (offered, begun)
    assert found == ["ex-0", "ex-1"]
    assert steps > 20


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def sent_of(folder: Path) -> list[str]:
    """The ids of what is ready, in order, each with a whole recording."""
    spool = spool_of(folder / "spool" / "1")
    names = []
    for entry in spool.first(10):
        parcel = prepare_item(entry, "agt")
        assert isinstance(parcel.packed, Path)
        unpack(parcel.packed, folder / f"copy-{parcel.exchange.exchange_id}")
        names.append(parcel.exchange.exchange_id)
    return names


def spool_of(slot: Path) -> Spool:
    spool = Spool(
        slot, DeadLetters(slot / "refused", most=9), Notices(pytest.fail), max_bytes=1 << 20
    )
    spool.recover()
    return spool


def test_what_is_being_sent_is_sent_the_same_after_a_kill(tmp_path: Path) -> None:
    def fill(number: int) -> Path:
        spool = spool_of(tmp_path / f"{number}")
        for name in ("ex-0", "ex-1"):
            spool.offer(an_exchange(name), a_capture(spool.place()))
        return tmp_path / f"{number}"

    def work(folder: Path, tell: Tell) -> None:
        spool = spool_of(folder)
        for entry in spool.first(10):
            parcel = prepare_item(entry, "agt")
            assert parcel.exchange.recording is not None
            tell(f"{parcel.exchange.exchange_id}={parcel.exchange.recording.digest}")
            spool.remove(entry)

    steps = 0
    for folder, told in killed_at_each_step(fill, work):
        steps += 1
        again: list[str] = []
        work(folder, again.append)
        sent = dict(one.split("=") for one in told)
        resent = dict(one.split("=") for one in again)
        assert {**sent, **resent}.keys() == {"ex-0", "ex-1"}
        assert all(sent[name] == resent[name] for name in sent.keys() & resent.keys())
    assert len(sent) == 2
    assert steps > 20


def test_a_journal_knows_what_it_said_it_knows(tmp_path: Path) -> None:
    def work(folder: Path, tell: Tell) -> None:
        journal = Journal(folder / "j", many=3)
        journal.open(0)
        for number in range(8):
            journal.accept(f"rp-{number}", f"cmd-{number}", f"n-{number}", 10, 5)
            tell(f"accepted-{number}")
            journal.end(f"rp-{number}", ReplayEnd("cancelled"), 5)
            tell(f"ended-{number}")
        journal.close()

    steps = 0
    for folder, told in killed_at_each_step(lambda n: made(tmp_path / f"{n}"), work):
        steps += 1
        journal = Journal(folder / "j")
        journal.open(5)
        for one in told:
            what, number = one.split("-")
            known = journal.find(f"rp-{number}")
            assert known is not None
            assert journal.used_by(f"n-{number}") == f"cmd-{number}"
            assert what == "accepted" or known.done == ReplayEnd("cancelled")
        journal.close()
    assert steps > 8


@pytest.mark.slow
def test_a_replay_is_run_at_most_once_and_its_end_is_always_known(tmp_path: Path) -> None:
    outcomes: set[str] = set()
    with ProtocolServer() as server:

        def make(number: int) -> Path:
            folder = tmp_path / f"{number}"
            (folder / "spool" / "1").mkdir(parents=True)
            (folder / "spool" / "1" / "agent").write_text(f"agt-{number}", encoding="ascii")
            server.forget_all()
            server.give(server.order(f"agt-{number}", f"rp-{number}"))
            return folder

        def work(folder: Path, tell: Tell) -> None:
            runner = marking(folder)
            with linked(server.url, folder, runner):
                has_started(runner)
                tell("ran")

        for folder, _ in killed_at_each_step(make, work):
            with linked(server, folder, marking(folder)):
                outcomes.add(end_of(server, f"rp-{folder.name}"))
            marks = folder.with_name(f"{folder.name}-marks")
            runs = marks.read_bytes().count(b"ran") if marks.exists() else 0
            assert runs <= 1
            assert runs == 1 or f"ex-of-rp-{folder.name}" not in server.exchanges
    assert outcomes == {"completed", "failed agent_restarted"}


def end_of(server: ProtocolServer, replay: str) -> str:
    """What the server knows of it in the end. There always is something."""

    def found() -> list[str]:
        failed = [f"{state} {code}" for state, code in server.says(replay) if state == "failed"]
        return ["completed"] if f"ex-of-{replay}" in server.exchanges else failed

    server.until(found)
    return found()[0]


def marking(folder: Path) -> CountingRunner:
    """Its runs leave a mark that no kill takes away."""
    runner = CountingRunner()
    marks = folder.with_name(f"{folder.name}-marks")

    def act(job: ReplayJob) -> None:
        with marks.open("ab") as file:
            file.write(b"ran\n")

    runner.act = act
    return runner
