"""What an agent adds to the requests of an app, and what a step costs where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import httpx
from fastapi import FastAPI

from bench.measure import Row, Setting, cpu, fact, interleave
from reenact.exchange import Agent, step

TITLE = "an agent in an app"

_ORDER = {"item": "tea", "amount": 100, "lines": [{"sku": f"a-{n}", "n": n} for n in range(10)]}


def run(setting: Setting) -> Iterator[Row]:
    yield from _requests(setting)
    yield _step(setting)


def _requests(setting: Setting) -> Iterator[Row]:
    def made(name: str, sample: float) -> Agent:
        return Agent(app="bench", environment="bench", data=setting.folder / name, sample=sample)

    with made("recorded", 1.0) as recorded, made("unsampled", 0.0) as unsampled:
        apps: dict[str, Any] = {
            "bare": _app(),
            "recorded": recorded.asgi(_app()),
            "unsampled": unsampled.asgi(_app()),
        }
        count = setting.scaled(200)
        cases = {name: _asking(app, count) for name, app in apps.items()}
        times = interleave(cases, setting.rounds)
    for name, what in (("recorded", "recorded with its calls"), ("unsampled", "not sampled")):
        pairs = zip(times[name], times["bare"], strict=True)
        added = [(more - less) * 1e3 / count for more, less in pairs]
        yield fact(f"exchange, {what}: added to a request", added, "ms", clock="cpu")


def _app() -> FastAPI:
    app = FastAPI()

    @app.post("/orders")
    async def take_order(order: dict[str, Any]) -> dict[str, Any]:
        return {"total": _sum(order["lines"])}

    return app


@step
def _sum(lines: list[dict[str, Any]]) -> int:
    return sum(line["n"] for line in lines)


def _asking(app: Any, count: int) -> Callable[[], float]:
    async def ask() -> float:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://bench") as client:
            before = process_time()
            for _ in range(count):
                (await client.post("/orders", json=_ORDER)).raise_for_status()
            return process_time() - before

    return lambda: asyncio.run(ask())


def _step(setting: Setting) -> Row:
    def nothing(number: int) -> None:
        pass

    stepped = step("nothing")(nothing)
    items = range(setting.scaled(400_000))
    times = interleave(
        {"bare": lambda: cpu(nothing, items), "step": lambda: cpu(stepped, items)}, setting.rounds
    )
    pairs = zip(times["step"], times["bare"], strict=True)
    added = [(more - less) * 1e9 / len(items) for more, less in pairs]
    return fact("step outside of an exchange: added to a call", added, "ns", clock="cpu")
