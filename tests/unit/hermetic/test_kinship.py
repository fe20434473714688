"""Who listens, as Linux tells it, while others come and go."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from reenact.hermetic.endpoints import receivers, run_listens_on_path

BUSY = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    os.dup2(listener.fileno(), 200)
    listener.close()
    print("listens", flush=True)
    while True:
        some = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
        for one in some:
            os.close(one)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_who_listens_is_found_while_it_opens_and_closes_files(tmp_path: Path) -> None:
    """A descriptor that was closed between being listed and being read hid those behind it, and a
    program was warned of a connection to its own manager."""
    path = tmp_path / "door"
    with subprocess.Popen(
        [sys.executable, "-c", BUSY, path], stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "listens\n"
            assert [run_listens_on_path(str(path)) for _ in range(50)] == [True] * 50
        finally:
            child.kill()
    assert not run_listens_on_path(str(path))


def _read_end(fds: tuple[int, int], *, closes: bool = True) -> subprocess.Popen[bytes]:
    """A process that has the first of ``fds`` only, and ends with its standard input."""
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=fds[:1])
    if closes:
        os.close(fds[0])
    return child


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
@pytest.mark.parametrize("kind", ["pipe", "pair", "unix", "tcp"])
def test_process_at_the_other_end_is_found(kind: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        if kind == "pipe":
            theirs, ours = os.pipe()
            stack.callback(os.close, ours)
        else:
            first, second = _connected(kind, tmp_path)
            stack.enter_context(second)
            theirs, ours = first.detach(), second.fileno()
        child = stack.enter_context(_read_end((theirs, ours)))
        other = stack.enter_context(_read_end((ours, theirs), closes=False))
        assert receivers(ours, {child.pid, other.pid, 1}) == {child.pid}


def _connected(kind: str, folder: Path) -> tuple[socket.socket, socket.socket]:
    if kind == "pair":
        return socket.socketpair()
    family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind(str(folder / "door") if kind == "unix" else ("127.0.0.1", 0))
        listener.listen()
        client = socket.socket(family)
        client.connect(listener.getsockname())
        return listener.accept()[0], client


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_process_that_listens_is_found_before_it_accepts(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "door"
    program = f"""
import socket
with socket.socket({"socket.AF_UNIX" if kind == "unix" else ""}) as listener:
    listener.bind({str(path) if kind == "unix" else ("127.0.0.1", 0)!r})
    listener.listen()
    print(listener.getsockname(), flush=True)
    input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        name = child.stdout.readline().strip()
        address = name if kind == "unix" else ast.literal_eval(name)
        with socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET) as client:
            client.connect(address)
            assert receivers(client.fileno(), {child.pid, 1}) == {child.pid}
        child.communicate("\n")
