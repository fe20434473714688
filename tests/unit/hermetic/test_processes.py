"""Which processes go on with a recording, and which are known to use the network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.hermetic.process_starts import (
    START_EVENTS,
    ProcessStart,
    is_covered_process,
    uses_network,
)

INJECT = str(Path(reenact.__file__).parent / "runs" / "inject")
RUN = {"REENACT_RUN": "somewhere", "PYTHONPATH": INJECT}


def _popen(argv: Any, environ: Any = None, executable: Any = None) -> ProcessStart:
    return START_EVENTS["subprocess.Popen"](executable or argv[0], argv, None, environ)


@pytest.mark.parametrize(
    "argv",
    [
        [sys.executable, "program.py"],
        ["python3", "-c", "pass"],
        ["python3.11", "-u", "-W", "error", "-X", "dev", "-m", "module", "-I"],
        ["python", "-Wignore", "program.py", "-E"],
        [b"/usr/bin/python3", b"program.py"],
        [Path("/usr/bin/python3"), "program.py"],
        ["pypy3", "--", "-S"],
    ],
    ids=["own", "command", "module", "script", "bytes", "path", "end"],
)
def test_a_python_below_reenact_run_is_ours(argv: list[Any]) -> None:
    assert is_covered_process(_popen(argv, RUN))


@pytest.mark.parametrize(
    "argv",
    [
        ["python", "-I", "program.py"],
        ["python", "-E", "program.py"],
        ["python", "-S", "program.py"],
        ["python", "-uIc", "pass"],
        ["python", "-W", "error", "-I", "program.py"],
        ["curl", "python"],
        ["sh", "-c", "python program.py"],
        ["pythonic"],
        ["uv", "run", "python"],
    ],
    ids=["I", "E", "S", "bundle", "after", "curl", "shell", "name", "uv"],
)
def test_other_processes_are_not(argv: list[Any]) -> None:
    assert not is_covered_process(_popen(argv, RUN))


@pytest.mark.parametrize(
    "environ",
    [{}, {"REENACT_RUN": "x"}, {"PYTHONPATH": INJECT}, {**RUN, "PYTHONPATH": "x"}],
    ids=["empty", "no_path", "no_run", "other_path"],
)
def test_an_environment_of_its_own_keeps_us_out(environ: dict[str, str]) -> None:
    assert not is_covered_process(_popen([sys.executable], environ))


def test_without_an_environment_ours_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    start = _popen([sys.executable, "program.py"])
    assert not is_covered_process(start)
    for name, value in RUN.items():
        monkeypatch.setenv(name, value)
    assert is_covered_process(start)
    bytes_ = {os.fsencode(name): os.fsencode(value) for name, value in RUN.items()}
    assert is_covered_process(_popen([sys.executable], bytes_))


@pytest.mark.parametrize(
    "first, ours",
    [
        (f"#!{sys.executable}", True),
        ("#!/usr/bin/env python3", True),
        ("#!/usr/bin/env -S python3 -u", True),
        ("#!/bin/sh\n'''exec' /long/path/python3 \"$0\" \"$@\"", True),
        ("#!/usr/bin/python3 -I", False),
        ("#!/bin/sh", False),
        ("\x7fELF", False),
    ],
    ids=["direct", "env", "env_S", "long", "isolated", "shell", "binary"],
)
def test_a_script_is_what_its_first_line_says(first: str, ours: bool, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text(f"{first}\n", encoding="utf-8")
    tool.chmod(0o755)
    assert is_covered_process(_popen(["tool"], {**RUN, "PATH": str(tmp_path)})) is ours
    assert is_covered_process(_popen([str(tool)], RUN)) is ours


def test_events_say_what_is_started() -> None:
    assert START_EVENTS["os.system"](b"curl x").argv == ("sh", "-c", "curl x")
    assert START_EVENTS["os.exec"]("/bin/ls", ["ls", "-l"], None).name == "ls"
    assert START_EVENTS["os.posix_spawn"]("/bin/ls", (b"ls",), {}) == ProcessStart(
        ("ls",), "/bin/ls", {}
    )
    assert START_EVENTS["os.spawn"](0, "/bin/ls", ["ls"], None).executable == "/bin/ls"
    assert START_EVENTS["pty.spawn"]("sh").argv == ("sh",)
    assert START_EVENTS["pty.spawn"](["sh", "-l"]).written() == "sh -l"
    assert _popen("one word").argv == ("one word",)


@pytest.mark.parametrize(
    "argv, tool",
    [
        (["/usr/bin/curl", "x"], "curl"),
        (["sudo", "wget", "x"], "wget"),
        (["git", "-C", "x", "push"], "git"),
        (["git", "rev-parse", "HEAD"], ""),
        (["ls", "curl"], ""),
        (["sh", "-c", "echo curl"], ""),
        (["bash", "-c", "true; X=1 curl x"], "curl"),
        (["sh", "-c", "echo $(curl x)"], "curl"),
        (["sh", "-c", "ls | 'ssh' host"], "ssh"),
        (["sh", "script"], ""),
        ([], ""),
    ],
    ids=["curl", "sudo", "push", "git", "word", "echo", "chain", "inner", "quoted", "file", "none"],
)
def test_known_tools_are_found(argv: list[str], tool: str) -> None:
    assert uses_network(ProcessStart(tuple(argv))) == tool
