"""A program that closes descriptors it has not opened."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

import reenact
from reenact.store.files import held_descriptors


def test_our_own_look_closed_to_the_program(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record") as session:
        ours = held_descriptors(0, 1 << 20)
        assert ours
        for fd in ours:
            with pytest.raises(OSError, match="descriptor") as refused:
                os.close(fd)
            assert refused.value.errno == errno.EBADF
            os.closerange(fd, fd + 1)
        session.call("a", {}, lambda: "answer")
    assert reenact.verify(tmp_path / "c").notes == ()


def test_a_range_is_closed_around_them(tmp_path: Path) -> None:
    """In a process of its own: between these numbers there may be files of other tests."""
    done = subprocess.run([sys.executable, "-c", _AROUND, tmp_path / "c"], check=False)
    assert done.returncode == 0


_AROUND = """\
import errno, os, sys
import reenact
from reenact.store.files import held_descriptors

before = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
os.close(before[0])
with reenact.session(capture=sys.argv[1], mode="record") as session:
    after = os.open(os.devnull, os.O_RDONLY)
    [ours, *_] = held_descriptors(0, after)
    assert ours < before[1] < after
    os.closerange(ours, after + 1)
    for fd in (before[1], after):
        try:
            os.fstat(fd)
        except OSError as error:
            assert error.errno == errno.EBADF
        else:
            raise AssertionError(f"{fd} is still open")
    assert session.call("a", {}, lambda: "answer") == "answer"
"""


def test_afterwards_the_originals_are_back_and_nothing_is_held(tmp_path: Path) -> None:
    before, held = (os.close, os.closerange), held_descriptors(0, 1 << 20)
    with reenact.session(capture=tmp_path / "c", mode="record"):
        pass
    assert (os.close, os.closerange) == before
    assert held_descriptors(0, 1 << 20) == held
