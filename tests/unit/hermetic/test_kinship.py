"""Who listens, as Linux tells it, while others come and go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reenact.hermetic.kinship import kin_listens_on_path

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
            assert [kin_listens_on_path(str(path)) for _ in range(50)] == [True] * 50
        finally:
            child.kill()
    assert not kin_listens_on_path(str(path))
