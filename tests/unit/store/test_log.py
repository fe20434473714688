from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from reenact.store.log import Log, Syncer, pause_syncers, whole_lines, whole_size


def open_log(path: Path) -> Log:
    return Log(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT), path)


def test_lines_are_appended_and_counted(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    for line in (b"one\n", b"two\n"):
        log.append(line)
    assert (log.tally.lines, log.tally.size) == (2, 8)
    assert (tmp_path / "log").read_bytes() == b"one\ntwo\n"
    log.close()
    log.close()


def test_a_write_that_fails_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = open_log(path)
    log.append(b"one\n")
    log.close()
    read_only = Log(os.open(path, os.O_RDONLY), path)
    read_only.tally = log.tally
    with pytest.raises(OSError):
        read_only.append(b"two\n")
    read_only.close()
    assert path.read_bytes() == b"one\n"
    assert log.tally.lines == 1


def test_a_tail_is_cut_back_to_the_last_line_end(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(b"one\n")
    os.write(log.fd, b"tw")
    log.cut_tail()
    assert (tmp_path / "log").read_bytes() == b"one\n"
    log.close()


@pytest.mark.parametrize(
    "content, size",
    [
        (b"", 0),
        (b"x", 0),
        (b"\n", 1),
        (b"a\nb", 2),
        (b"a\nb\n", 4),
        (b"a\n" + b"x" * (3 << 20), 2),
        (b"x" * (2 << 20), 0),
    ],
    ids=["empty", "tail", "end", "line and tail", "lines", "long tail", "only a long tail"],
)
def test_what_is_whole_ends_at_the_last_line_end(tmp_path: Path, content: bytes, size: int) -> None:
    (tmp_path / "log").write_bytes(content)
    assert whole_size(tmp_path / "log") == size
    assert b"".join(whole_lines(tmp_path / "log")) == content[:size]


def test_lines_can_be_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one\ntwo\nthree\n")
    assert list(whole_lines(tmp_path / "log", 8)) == [b"one\n", b"two\n"]
    assert list(whole_lines(tmp_path / "log", 9)) == [b"one\n", b"two\n"]


class _ClosedMeanwhile(threading.Event):
    """The wait is over in vain, and in the very next moment somebody closes the syncer."""

    due: threading.Event

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        self.due.set()
        return False


def test_a_syncer_that_is_closed_while_it_wakes_up_does_not_wait_for_ever(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    syncer = Syncer(fd, [])
    syncer._stop = _ClosedMeanwhile()
    syncer._stop.due = syncer._due
    syncer._due.set()
    thread = threading.Thread(target=syncer._run, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    os.close(fd)


def test_a_syncer_that_is_paused_goes_on_when_it_is_touched(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT)
    files = [tmp_path / "log"]
    syncer = Syncer(fd, files, interval=30)
    try:
        for _ in range(2):
            files.append(tmp_path / "log")
            syncer.touch()
            assert "reenact-sync" in _threads()
            pause_syncers()
            assert files == []  # durable
            assert "reenact-sync" not in _threads()
    finally:
        syncer.close()
        os.close(fd)


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]
