"""What a worker does with an item or after a signal of a replay is refused and reported."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hermetic import empty_recording
from tests.integration.processes import run_program

Found = dict[str, dict[str, Any]]

KINDS = (
    "iter.Queue",
    "iter.SimpleQueue",
    "queue.Queue",
    "queue.LifoQueue",
    "queue.PriorityQueue",
    "queue.SimpleQueue",
    "queue.Custom",
    "requests",
    "httpx",
    "http.client",
    "thread",
    "executor",
    "asyncio",
)

SIGNALS = (
    "ByCondition",
    "ByPredicate",
    "ByEvent",
    "ByTimedEvent",
    "BySemaphore",
    "ByBarrier",
    "ByFuture",
    "busy.ByCondition",
    "busy.ByEvent",
    "busy.BySemaphore",
    "task.Event",
    "task.WaitFor",
    "task.Wait",
    "task.Posted",
    "task.Condition",
    "task.Semaphore",
    "task.Result",
    "task.PostedResult",
    "task.Wrapped",
    "task.AnyioEvent",
)
STREAMS = ("task.Stream", "task.Iterated", "task.QueueInTime")
AGAIN = ("", "again.")
"""Workers that wait since before the patches, and workers that wait in the patched methods."""


class _Witness(http.server.ThreadingHTTPServer):
    """A server that is no part of the program, and notes which paths came."""

    daemon_threads = True

    def __init__(self) -> None:
        self.came: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Witness

    def do_GET(self) -> None:
        self.server.came.append(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def witness() -> Iterator[_Witness]:
    with _Witness() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def found(witness: _Witness, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return _attempts("worker_attempts", witness, tmp_path_factory.mktemp("workers"))


@pytest.fixture(scope="module")
def signalled(witness: _Witness, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return _attempts("signal_attempts", witness, tmp_path_factory.mktemp("signals"))


def _attempts(program: str, witness: _Witness, folder: Path) -> Found:
    recording = empty_recording(folder / "recording")
    results = folder / "results.json"
    done = run_program(program, recording, results, str(witness.server_address[1]))
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    read: Found = json.loads(results.read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("kind", KINDS)
def test_worker_outside_the_replay_does_not_send_what_came_through_a_queue(
    kind: str, found: Found, witness: _Witness
) -> None:
    one = found[kind]
    assert f"{kind}/inside" not in witness.came
    assert one["status"] == "diverged"
    assert "which acts on an item that the session has put in a queue" in one["ended"]
    assert f"127.0.0.1:{witness.server_address[1]}" in one["ended"]


@pytest.mark.parametrize("kind", KINDS)
def test_worker_goes_on_with_the_work_of_others(kind: str, found: Found, witness: _Witness) -> None:
    assert [one.partition(":")[0] for one in found[kind]["said"][::2]] == ["sent", "sent"]
    assert {f"{kind}/before", f"{kind}/after"} <= set(witness.came)


def test_worker_does_not_send_after_the_end_of_the_replay_either(
    found: Found, witness: _Witness
) -> None:
    assert "late/inside" not in witness.came
    assert found["late"]["said"][1].startswith("SessionClosed")
    assert "after the end of the replay" in found["late"]["ended"]
    assert "late/after" in witness.came


def test_worker_outside_the_replay_does_not_act_after_a_signal_of_it(
    signalled: Found, witness: _Witness
) -> None:
    for kind in (prefix + kind for prefix in AGAIN for kind in SIGNALS):
        one = signalled[kind]
        assert f"{kind}/inside" not in witness.came, kind
        assert one["status"] == "diverged", kind
        assert "which a signal of the session has woken" in one["ended"], kind
        assert f"127.0.0.1:{witness.server_address[1]}" in one["ended"], kind


def test_task_outside_the_replay_does_not_send_what_came_through_a_stream_or_in_time(
    signalled: Found, witness: _Witness
) -> None:
    for kind in (prefix + kind for prefix in AGAIN for kind in STREAMS):
        assert f"{kind}/inside" not in witness.came, kind
        assert signalled[kind]["status"] == "diverged", kind


def test_worker_goes_on_with_the_work_of_others_after_a_signal(
    signalled: Found, witness: _Witness
) -> None:
    for kind in (prefix + kind for prefix in AGAIN for kind in (*SIGNALS, *STREAMS)):
        assert [one.partition(":")[0] for one in signalled[kind]["said"][::2]] == ["sent", "sent"]
        assert {f"{kind}/before", f"{kind}/after"} <= set(witness.came), kind


def test_worker_writes_no_row_after_a_signal_of_a_replay(signalled: Found) -> None:
    """A thread that waited for an Event wrote to its SQLite file, and the status was ok."""
    names = [f"{prefix}ByStatement/{when}" for prefix in AGAIN for when in ("before", "after")]
    assert signalled["database"]["said"] == names
    assert signalled["ByStatement"]["status"] == "diverged"
    assert "through sqlite3" in signalled["ByStatement"]["ended"]


def test_worker_does_not_send_after_the_end_of_the_replay_that_signalled_it(
    signalled: Found, witness: _Witness
) -> None:
    assert "late/inside" not in witness.came
    assert signalled["late"]["said"][1].startswith("SessionClosed")
    assert "after the end of the replay" in signalled["late"]["ended"]
    assert "late/after" in witness.came
