"""Recordings and spools that other users cannot read, whatever the umask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.exchange.client.command_journal import Journal
from reenact.exchange.client.slots import claim_slot
from reenact.exchange.client.spool import DeadLetters, Spool
from reenact.exchange.client.workers import Notices
from reenact.store.pack import pack, unpack
from tests.integration.exchange.client_helpers import a_capture, an_exchange
from tests.integration.small import write_small


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def readable_by_others(*places: Path) -> list[str]:
    """The files and folders at and below ``places`` that someone else can use."""
    found = [one for place in places for one in (place, *place.rglob("*"))]
    assert found
    return [f"{one} {one.stat().st_mode & 0o777:o}" for one in found if one.stat().st_mode & 0o077]


def test_other_users_cannot_read_a_capture_or_a_tape(tmp_path: Path) -> None:
    run, tape = tmp_path / "run", tmp_path / "tape.jsonl"
    write_small(run)
    write_small(tape)
    assert (run / "blobs").exists()
    assert readable_by_others(run, tape, tmp_path / "tape.jsonl.blobs") == []


def test_other_users_cannot_read_a_packed_or_unpacked_recording(tmp_path: Path) -> None:
    write_small(tmp_path / "run")
    pack(tmp_path / "run", tmp_path / "packed")
    unpack(tmp_path / "packed", tmp_path / "again")
    assert readable_by_others(tmp_path / "packed", tmp_path / "again") == []


def test_other_users_cannot_read_the_run_of_a_program(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import time; time.time()'], check=True)\n"
    )
    command = [sys.executable, "-m", "reenact", "run", "--capture", "run"]
    done = subprocess.run(
        [*command, "--", sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert readable_by_others(tmp_path / "run") == []


def test_other_users_cannot_read_a_spool(tmp_path: Path) -> None:
    home = tmp_path / "exchange"
    slot = claim_slot(home)
    spool = Spool(
        slot.folder, DeadLetters(home / "refused", most=3), Notices(pytest.fail), max_bytes=1 << 20
    )
    spool.recover()
    spool.offer(an_exchange("ex-1"), None)
    spool.offer(an_exchange("ex-2"), a_capture(tmp_path / "capture"))
    journal = Journal(slot.folder / "journal")
    journal.open(0)
    try:
        assert spool.count == 2
        assert readable_by_others(home) == []
    finally:
        journal.close()
        slot.release()
