"""Writing to file descriptors and closing them."""

from __future__ import annotations

import os
import threading

from reenact.boundaries.processes.pipes import close_quietly, write_all


def test_more_than_a_pipe_holds_is_written_when_somebody_reads() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    data, got = b"x" * 300_000, bytearray()

    def hear() -> None:
        while piece := os.read(read, 10_000):
            got.extend(piece)

    thread = threading.Thread(target=hear)
    thread.start()
    assert write_all(write, data)
    os.close(write)
    thread.join()
    os.close(read)
    assert bytes(got) == data


def test_where_nobody_reads_that_is_said() -> None:
    read, write = os.pipe()
    os.close(read)
    assert not write_all(write, b"x")
    os.close(write)


def test_what_is_closed_already_stays_so() -> None:
    fds = os.pipe()
    os.close(fds[0])
    close_quietly(fds)
    assert not any(map(_is_open, fds))


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True
