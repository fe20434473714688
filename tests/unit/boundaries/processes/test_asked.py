"""What is compared of a process that is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from reenact.boundaries.processes.popen import process_call

OWN = {"HOME": "/home/a", "PATH": "/bin", "LANG": "C"}


def _asked(args: Any, **more: Any) -> Any:
    given = {"shell": False, "executable": None, "cwd": None, "environ": None, "own": OWN, **more}
    return process_call(args, **given)


@pytest.mark.parametrize(
    "args, more, argv, operation",
    [
        (["/bin/ls", "-l"], {}, ["/bin/ls", "-l"], "ls"),
        ("ls -l", {"shell": True}, ["sh", "-c", "ls -l"], "sh"),
        ([sys.executable, "a.py"], {}, ["python", "a.py"], "python"),
        ([Path("/bin/ls"), b"x"], {}, ["/bin/ls", "x"], "ls"),
        (["ls"], {"executable": "/bin/dash"}, ["/bin/dash"], "dash"),
        ([b"ls", b"\xff"], {}, ["ls", b"\xff"], "ls"),
        ("ls", {}, ["ls"], "ls"),
    ],
    ids=["words", "shell", "python", "paths", "executable", "bytes", "one_word"],
)
def test_the_words(args: Any, more: Any, argv: list[Any], operation: str) -> None:
    call = _asked(args, **more)
    assert call.request == {"argv": argv}
    assert (call.operation, call.capability, call.source) == (operation, "process.exec", "process")


@pytest.mark.parametrize(
    "given, changes",
    [
        (OWN, None),
        ({**OWN, "LANG": "de"}, {"set": {"LANG": "de"}}),
        ({"HOME": "/home/a", "PATH": "/bin"}, {"unset": ["LANG"]}),
        ({b"HOME": b"/home/a", b"PATH": b"/bin", b"LANG": b"C", b"X": b"1"}, {"set": {"X": "1"}}),
        ({"X": "1", "PATH": "/bin"}, {"set": {"X": "1"}, "kept": ["PATH"]}),
        ({**OWN, "REENACT_LANE": "0.1"}, None),
    ],
    ids=["same", "changed", "missing", "bytes", "from_nothing", "ours"],
)
def test_the_environment(given: Any, changes: Any) -> None:
    assert _asked(["ls"], environ=given).request.get("env") == changes


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert _asked(["ls"], cwd=tmp_path / "sub").request["cwd"] == "sub"
    assert _asked(["ls"], cwd=str(tmp_path)).request["cwd"] == "."
    assert _asked(["ls"], cwd=os.sep).request["cwd"] == os.sep


def test_a_file_that_is_read() -> None:
    assert _asked(["sort"], stdin={"size": 3}).request["stdin"] == {"size": 3}
    assert "stdin" not in _asked(["sort"]).request
