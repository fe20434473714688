"""Tasks of queue workers: a real Celery worker that forks, and functions without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reenact.exchange.folder_exporter import FolderExporter
from tests.integration.exchange.apps import only, replay

ROOT = Path(__file__).resolve().parents[3]

SENDER = """
from tests.integration.exchange.celery_app import app, bound, invoice
made = invoice.apply_async((7,), {"factor": 3}, headers={"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"})
print(made.get(timeout=60)["n"])
print(bound.delay(5).get(timeout=60))
app.control.shutdown()
"""

REPLAYER = """
import json, sys
from pathlib import Path
from tests.integration.exchange.apps import replay
from tests.integration.exchange.celery_app import FOLDER, agent
EDITS = {"invoice": "body.kwargs.factor=10", "bound": "body.args[0]=6"}
for exchange in sorted(agent.kept.exchanges(), key=lambda one: one.route_id):
    edit = EDITS[exchange.route_id]
    found = replay(agent, exchange, FOLDER / f"again-{exchange.route_id}", [edit]).exchange
    print(found.result.body.text)
"""


@pytest.mark.slow
def test_a_worker_that_forks(tmp_path, upstream):
    environ = {
        **os.environ,
        "TEST_FOLDER": str(tmp_path),
        "TEST_UPSTREAM": upstream.url,
        "PYTHONPATH": str(ROOT),
    }
    worker = subprocess.Popen(
        [
            *(sys.executable, "-m", "celery", "-A", "tests.integration.exchange.celery_app"),
            *("worker", "--pool=prefork", "--concurrency=2", "--loglevel=WARNING"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        sent = subprocess.run(
            [sys.executable, "-c", SENDER],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
        )
        told, _ = worker.communicate(timeout=60)
    finally:
        worker.kill()
        worker.wait()
    assert sent.returncode == 0, sent.stderr + told
    assert sent.stdout.splitlines() == ["3", "['bound', 0, 5]"]
    found = {one.route_id: one for one in FolderExporter(tmp_path / "data").exchanges()}
    invoice = found["invoice"]
    assert (invoice.kind, invoice.not_replayable) == ("task", "")
    assert json.loads(invoice.start.body.text) == {"args": [7], "kwargs": {"factor": 3}}
    assert invoice.start.properties["task.name"] == "invoice"
    assert invoice.correlation_id == invoice.start.properties["task.id"]
    assert invoice.trace is not None
    assert (invoice.trace.trace_id, invoice.trace.parent_span_id) == ("a" * 32, "b" * 16)
    assert [one.processor_id for one in invoice.processors] == ["fetch"]
    assert json.loads(found["bound"].start.body.text) == {"args": [5], "kwargs": {}}
    upstream.asked.clear()
    again = subprocess.run(
        [sys.executable, "-c", REPLAYER],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert upstream.asked == []
    assert again.returncode == 0, again.stderr
    bound, invoiced = map(json.loads, again.stdout.splitlines())
    assert bound == ["bound", 0, 6]
    assert (invoiced["n"], invoiced["replay"]) == (10, True)


def test_a_function_that_no_queue_calls(agent, tmp_path):
    seen = []

    @agent.task
    def plain(a, b=2):
        seen.append((a, b))
        return a + b

    assert plain(1, b=5) == 6
    source = only(agent)
    assert source.route_id.endswith(".plain")
    found = replay(agent, source, tmp_path / "again", ["body.args[0]=10"]).exchange
    assert seen == [(1, 5), (10, 5)]
    assert found.result is not None
    assert found.result.body.text == "15"


def test_an_asynchronous_task(agent, tmp_path):
    import asyncio

    @agent.task("later")
    async def later(n):
        return n + 1

    async def main():
        return await later(1)

    assert asyncio.run(main()) == 2
    found = replay(agent, only(agent), tmp_path / "again", ["body.args=[5]"]).exchange
    assert found.result is not None
    assert found.result.body.text == "6"


def test_arguments_that_json_cannot_hold(agent):
    @agent.task("odd")
    def odd(thing):
        return 1

    assert odd(object()) == 1
    assert "JSON cannot hold" in only(agent).not_replayable


def test_a_body_that_is_no_call(agent):
    from reenact.exchange.payload_edits import edit_payload, parse_settings
    from tests.integration.exchange.apps import command_for

    agent.task("t")(lambda: 1)()
    source = only(agent)
    payload = edit_payload(source.start, parse_settings(["body=[]"]))
    refusal = agent.runner.check(command_for(source), payload, ())
    assert refusal is not None
    assert refusal.code == "not_replayable"
