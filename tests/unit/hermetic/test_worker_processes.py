"""Work for processes outside a session, where the usual tests do not reach."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import reenact
from reenact.engine.patches.patch import PatchSet
from reenact.hermetic.process_handoffs import ProcessHandoffs
from reenact.policy.model import BoundaryRule, Policy

FORK = multiprocessing.get_context("fork")


class _Refused(Exception):
    pass


def _refuse(session: Any, does: str, names: str, operation: str) -> None:
    raise _Refused(f"{does} for {names}")


@contextmanager
def _blind() -> Iterator[None]:
    """Checks on a system that does not tell who can read a connection."""
    patches = PatchSet(lambda: ProcessHandoffs(_refuse, lambda fd, among: None).patches)
    patches.acquire()
    try:
        yield
    finally:
        patches.release()


@pytest.fixture
def child() -> Iterator[BaseProcess]:
    """A process of before the session."""
    ours, theirs = FORK.Pipe(duplex=False)
    process = FORK.Process(target=ours.recv, name="idle")
    process.start()
    yield process
    theirs.send(None)
    process.join()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        pass
    return tmp_path / "c"


def test_connection_of_before_is_refused_where_nobody_tells_who_reads_it(
    child: BaseProcess, recording: Path
) -> None:
    before = FORK.Pipe(duplex=False)
    with reenact.session(capture=recording, mode="replay"), _blind():
        inside = FORK.Pipe(duplex=False)
        inside[1].send("inside")
        with pytest.raises(_Refused, match="sends on a Connection of multiprocessing for idle"):
            before[1].send("before")
    before[1].send("after")
    assert [before[0].recv(), inside[0].recv()] == ["after", "inside"]


LOKY = """
class ProcessPoolExecutor:
    def __init__(self, child):
        self._processes = {child.pid: child}

    def submit(self, fn):
        return "submitted"
"""


def test_executors_of_loky_are_refused_where_a_job_is_submitted(
    child: BaseProcess, recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its manager would be refused later, in a thread that leaves the future without a result."""

    folder = tmp_path / "packages" / "loky"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "process_executor.py").write_text(LOKY, encoding="utf-8")
    monkeypatch.syspath_prepend(folder.parent)
    says = "submits a job to a ProcessPoolExecutor"
    session = reenact.session(capture=recording, mode="replay")
    try:
        with pytest.raises(reenact.DivergenceError, match=says), session:
            module = importlib.import_module("loky.process_executor")
            module.ProcessPoolExecutor(child).submit(print)
        assert module.ProcessPoolExecutor(child).submit(print) == "submitted"
    finally:
        for name in ("loky.process_executor", "loky"):
            sys.modules.pop(name, None)


def test_process_of_a_fork_server_that_runs_already_is_a_warning(recording: Path) -> None:
    context, warnings = multiprocessing.get_context("forkserver"), list[str]()

    def start() -> int | None:
        process = context.Process(target=int)
        process.start()
        process.join()
        return process.exitcode

    assert start() == 0
    with reenact.session(capture=recording, mode="replay", warn=warnings.append):
        assert start() == 0
    assert [one for one in warnings if "not forked is in no session" in one]


def test_rule_of_the_policy_lets_a_process_outside_get_its_work(recording: Path) -> None:
    rule = BoundaryRule(capability="process.exec", operation="multiprocessing", action="pass")
    policy = Policy(id="p", boundaries=(rule,), allow_passthrough=True)
    items = FORK.SimpleQueue()
    process = FORK.Process(target=items.get)
    process.start()
    with reenact.session(capture=recording, mode="replay", policy=policy) as session:
        items.put("item")
        process.join()
    assert dict(session.machine.passed) == {"process.exec multiprocessing": 1}
