"""A Celery app whose tasks are exchanges. Run by workers in processes of their own."""

import os
from pathlib import Path

import httpx
from celery import Celery  # type: ignore[import-untyped]

from reenact.exchange import Agent, is_replay, step

FOLDER = Path(os.environ["TEST_FOLDER"])
UPSTREAM = os.environ["TEST_UPSTREAM"]

for name in ("queue", "control"):
    (FOLDER / name).mkdir(exist_ok=True)

agent = Agent(
    app="billing", environment="test", data=FOLDER / "data", drivers={"py-amqp": "refuse"}
)
app = Celery("billing", broker="filesystem://", backend=f"file://{FOLDER}")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(FOLDER / "queue"),
        "data_folder_out": str(FOLDER / "queue"),
        "control_folder": str(FOLDER / "control"),
    },
    broker_connection_retry_on_startup=False,
    worker_hijack_root_logger=False,
)


@step("fetch")
def fetch(number):
    return httpx.get(f"{UPSTREAM}/{number}").json()["n"]


@app.task(name="invoice")
@agent.task("invoice")
def invoice(number, *, factor=1):
    return {"n": fetch(number) * factor, "replay": is_replay(), "pid": os.getpid()}


@app.task(name="bound", bind=True)
@agent.task("bound")
def bound(self, number):
    return [self.name, self.request.retries, number]
