"""Which ends of a process's files are ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.boundaries.processes.pipes import close_quietly, file_given, take_ends, with_pipes
from reenact.format.canonical import digest_bytes

NONE = dict.fromkeys(("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"), -1)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[int]]:
    opened: list[int] = [*os.pipe(), *os.pipe(), os.open(tmp_path / "f", os.O_CREAT | os.O_WRONLY)]
    yield opened
    close_quietly(opened)


def _given(**fds: int) -> dict[str, Any]:
    return {**NONE, **fds}


def test_pipes_that_the_program_reads(files: list[int]) -> None:
    read, write, other_read, other_write, _ = files
    given = _given(c2pread=read, c2pwrite=write, errread=other_read, errwrite=other_write)
    ends = take_ends(given, None)
    assert ends.targets == {1: write, 2: other_write}
    assert ends.seen == {1, 2}
    assert not ends.joined
    pipes = with_pipes(given, ends)
    assert {pipes.given["c2pwrite"], pipes.given["errwrite"]}.isdisjoint(files)
    assert pipes.theirs == []
    close_quietly([pipes.given["c2pwrite"], pipes.given["errwrite"]])
    pipes.close()


def test_both_to_one_file(files: list[int]) -> None:
    given = _given(c2pwrite=files[4], errwrite=files[4])
    ends = take_ends(given, None)
    assert ends.joined
    assert list(ends.targets) == [1]
    assert not ends.seen
    pipes = with_pipes(given, ends)
    assert pipes.given["c2pwrite"] == pipes.given["errwrite"]
    close_quietly(pipes.theirs)
    pipes.close()
    ends.close()


def test_the_null_device_is_left_alone(files: list[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    ends = take_ends(_given(p2cread=null, c2pwrite=null, errwrite=null), null)
    os.close(null)
    assert (ends.targets, ends.source) == ({}, None)


def test_what_another_process_says_is_passed_on(files: list[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    given = _given(p2cread=files[0], c2pwrite=null, errwrite=null)
    ends = take_ends(given, null)
    assert ends.source is not None
    assert os.fstat(ends.source).st_ino == os.fstat(files[0]).st_ino
    pipes = with_pipes(given, ends)
    assert pipes.theirs == [pipes.given["p2cread"]]
    close_quietly(pipes.theirs)
    pipes.close()
    ends.close()
    os.close(null)


def test_a_file_on_disk_stands_in_what_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"first second")
    with path.open("rb", buffering=0) as file:
        file.seek(6)
        given = _given(p2cread=file.fileno())
        found = file_given(given, lambda _: False)
        assert file.tell() == 6, "the process reads on from where the program was"
        assert found == {"size": 6, "digest": digest_bytes(b"second")}
        assert file_given(given, lambda content: b"sec" in content) is None


def test_a_pipe_is_no_file_on_disk(files: list[int]) -> None:
    assert file_given(_given(p2cread=files[0]), lambda _: False) is None
    assert file_given(_given(), lambda _: False) is None
