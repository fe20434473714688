"""What a replay hands to processes outside it is refused and reported before it is handed over."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from tests.integration.hermetic import empty_recording
from tests.integration.processes import run_program

KINDS = (
    "submit",
    "executor.map",
    "run_in_executor",
    "apply",
    "apply_async",
    "map",
    "starmap",
    "imap",
    "imap_unordered",
    "Queue",
    "JoinableQueue",
    "SimpleQueue",
    "thread",
    "pipe",
    "one-way pipe",
    "bytes",
    "bound send",
    "manager",
    "unix listener",
    "TCP listener",
    "text for a program",
    "bytes for a program",
)


class Found(NamedTuple):
    results: dict[str, dict[str, Any]]
    came: list[str]
    """Items that reached a process."""


@pytest.fixture(scope="module", params=["fork", "spawn"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("processes")
    recording = empty_recording(folder / "recording")
    results, witness = folder / "results.json", folder / "witness"
    done = run_program("process_attempts", recording, results, witness, request.param)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    came = witness.read_text(encoding="utf-8").splitlines()
    return Found(json.loads(results.read_text(encoding="utf-8")), came)


def test_process_of_before_the_replay_does_not_get_its_work(found: Found) -> None:
    assert [item for item in found.came if item.endswith("/refused")] == []
    assert {kind: found.results[kind]["refused"] for kind in KINDS} == dict.fromkeys(
        KINDS, "DivergenceError"
    )


def test_replay_that_hands_work_to_a_process_of_before_has_diverged(found: Found) -> None:
    for kind in KINDS:
        assert found.results[kind]["status"] == "diverged", kind
        assert "not started in the session: nothing was handed over" in found.results[kind]["ended"]


def test_process_of_before_the_replay_goes_on_with_the_work_of_others(found: Found) -> None:
    assert {f"{kind}/{when}" for kind in KINDS for when in ("before", "after")} <= set(found.came)


def test_processes_that_are_started_in_the_replay_get_its_work(found: Found) -> None:
    kinds = [kind for kind in KINDS if kind != "run_in_executor" and not kind.endswith("program")]
    assert {kind: found.results[kind]["inside"] for kind in kinds} == dict.fromkeys(kinds, "ok")
    assert {f"{kind}/inside" for kind in kinds} <= set(found.came)


def test_executor_of_before_the_replay_without_processes_works_in_it(found: Found) -> None:
    assert found.results["idle"]["status"] == "ok"
    assert "idle/inside" in found.came


def test_pools_and_queues_of_before_can_be_closed_in_a_replay(found: Found) -> None:
    assert found.results["ending"]["status"] == "ok"


def test_process_that_another_thread_starts_meanwhile_does_not_get_its_work(found: Found) -> None:
    assert found.results["meanwhile"] == {"status": "diverged", "refused": "DivergenceError"}
