"""What processes of a run are told through their environment, and how they end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from reenact.runs.plan import INJECT, RUN, with_injection
from reenact.runs.program import is_multiprocessing
from reenact.runs.runner import exit_code


def test_the_folder_that_starts_reenact_comes_first() -> None:
    environ = with_injection({"PYTHONPATH": f"/one{os.pathsep}/two", "HOME": "/home"}, "/run")
    assert environ == {
        "HOME": "/home",
        RUN: "/run",
        "PYTHONPATH": os.pathsep.join([INJECT, "/one", "/two"]),
    }
    assert (Path(INJECT) / "sitecustomize.py").is_file()


@pytest.mark.parametrize("environ", [{}, {"PYTHONPATH": ""}], ids=["none", "empty"])
def test_an_environment_without_a_path(environ: dict[str, str]) -> None:
    """An empty entry would be the current folder."""
    assert with_injection(environ, "/run") == {RUN: "/run", "PYTHONPATH": INJECT}


def test_a_child_of_a_child_is_told_once() -> None:
    once = with_injection({"PYTHONPATH": "/one"}, "/run")
    assert with_injection(once, "/run") == once


def test_what_was_given_stays_as_it_was() -> None:
    given = {"PYTHONPATH": "/one"}
    with_injection(given, "/run")
    assert given == {"PYTHONPATH": "/one"}


@pytest.mark.parametrize(
    "argv, expected",
    [
        (["python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(…)"], True),
        (["python", "-c", "from multiprocessing.forkserver import main; main(5, …)"], True),
        (["python", "-c", "from multiprocessing.resource_tracker import main;main(5)"], True),
        (["python", "program.py", "--multiprocessing.fork"], False),
        (["python", "-m", "multiprocessing"], False),
    ],
    ids=["spawn", "forkserver", "tracker", "program", "module"],
)
def test_processes_that_multiprocessing_starts(argv: list[str], expected: bool) -> None:
    assert is_multiprocessing(argv) is expected


@pytest.mark.parametrize(
    "returned, code", [(0, 0), (7, 7), (-signal.SIGKILL, 137), (-signal.SIGINT, 130)], ids=str
)
def test_a_signal_counts_from_128(returned: int, code: int) -> None:
    assert exit_code(returned) == code
