"""Batches over HTTP, and waiting for them by their own stream of events."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import httpx
import msgspec

PATH = "/api/v1/batches"


def plan(client: httpx.Client, **wanted: Any) -> httpx.Response:
    return client.post(PATH, json=wanted)


def planned(client: httpx.Client, **wanted: Any) -> dict[str, Any]:
    answer = plan(client, **wanted)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def confirm(client: httpx.Client, batch: dict[str, Any]) -> httpx.Response:
    return client.post(f"{PATH}/{batch['batchId']}/confirm")


def started(client: httpx.Client, **wanted: Any) -> dict[str, Any]:
    batch = planned(client, **wanted)
    answer = confirm(client, batch)
    assert answer.status_code == 200, answer.text
    return batch


def until(
    client: httpx.Client, batch: dict[str, Any], done: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """The batch when ``done``; the stream says when it has got on, and has a pulse."""
    last = monotonic() + 120  # on a busy machine
    with client.stream("GET", f"{PATH}/{batch['batchId']}/events") as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            assert monotonic() < last, "the batch does not get on"
            if line.startswith("data: "):
                found: dict[str, Any] = msgspec.json.decode(line.removeprefix("data: "))
                if done(found):
                    return found
    raise AssertionError("the batch ended otherwise")


def ended(client: httpx.Client, batch: dict[str, Any]) -> dict[str, Any]:
    return until(client, batch, lambda found: found["state"] in ("completed", "cancelled"))


def items(client: httpx.Client, batch: dict[str, Any], **query: str) -> list[dict[str, Any]]:
    answer = client.get(f"{PATH}/{batch['batchId']}/items", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found
