"""The two apps of the demo, a shop and a warehouse: ``python -m reenact.server.demo.apps shop``.

The shop checks, reserves and invoices orders, and requests advice from a model. An app listens on
an inherited socket and reads the addresses from its environment. It exits when its standard input
is closed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reenact.exchange import Agent, Message, choice, correlation, loop, step

__all__ = [
    "Values",
    "call",
    "main",
    "make_app",
    "make_shop",
    "make_warehouse",
    "route",
]

_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "stock",
            "description": "Return the price and the stock of a product.",
            "parameters": {
                "type": "object",
                "properties": {"sku": {"type": "string"}},
                "required": ["sku"],
            },
        },
    }
]


def make_shop(agent: Agent, warehouse: str) -> Starlette:
    """The app. ``warehouse`` is where the other one is."""

    @step("check")
    def check(order: Values) -> None:
        if not order.get("items"):
            raise HTTPException(422, "an order without items")

    @step("stock")
    def stock(sku: str) -> Any:
        status, found = call(f"{warehouse}/stock/{sku}", headers=correlation())
        if status == 404:
            raise HTTPException(404, f"there is no {sku}")
        return found

    @step("reserve")
    def reserve(sku: str, quantity: int) -> Any:
        wanted = {"sku": sku, "quantity": quantity}
        return call(f"{warehouse}/reservations", wanted, correlation())[1]

    @step("discount")
    def discount(message: Message) -> None:
        message.body["total"] = round(message.body["total"] * 0.9, 2)
        message.headers["x-discount"] = "ten percent"

    @step("number")
    def number(message: Message) -> None:
        message.body["invoice"] = f"{message.body['order']}-1"

    @agent.route("invoices")
    def invoice(message: Message) -> None:
        number(message)
        with choice("size") as size:
            if size.when("large", message.body["total"] > 100):
                discount(message)
            size.otherwise()

    def take_order(order: Values) -> Values:
        check(order)
        lines, total = [], 0.0
        for item in loop("items", order["items"]):
            found = stock(item["sku"])
            reserved = reserve(item["sku"], item["quantity"])
            share = found["pallet"] / item["quantity"]  # an order of none is a mistake to look at
            lines.append({**reserved, "perPallet": round(share, 1)})
            total += found["price"] * item["quantity"]
        return {"lines": lines, "invoice": invoice({"order": order["id"], "total": total})}

    @step("ask")
    def ask(messages: list[Values]) -> Values:
        asked = {"model": "small-1", "messages": messages, "tools": _TOOLS}
        _, answer = call(f"{warehouse}/v1/chat/completions", asked)
        said: Values = answer["choices"][0]["message"]
        return said

    def advise(question: Values) -> Values:
        messages: list[Values] = [
            {"role": "system", "content": "You know all about tea, and sell it."},
            {"role": "user", "content": question["question"]},
        ]
        while calls := (said := ask(messages)).get("tool_calls"):
            messages.append(said)
            for wanted in calls:
                found = stock(json.loads(wanted["function"]["arguments"])["sku"])
                told = {"role": "tool", "tool_call_id": wanted["id"], "content": json.dumps(found)}
                messages.append(told)
        return {"advice": said["content"]}

    app = make_app([route("POST", "/orders", take_order), route("POST", "/advice", advise)])
    app.add_middleware(agent.asgi)
    return app


_STOCK: Final[dict[str, Values]] = {
    "tea": {"price": 4.5, "pallet": 200},
    "pot": {"price": 39.0, "pallet": 24},
    "cup": {"price": 7.9, "pallet": 96},
}
_ADVICE: Final = (
    "Green tea wants water of eighty degrees, and three minutes. Boiling makes it bitter."
)


def _next_of(asked: Values) -> tuple[Values, str]:
    """Return the next message of the model and its stop reason.

    It looks up the price first if it can.
    """
    told = [one for one in asked["messages"] if one["role"] == "tool"]
    if asked.get("tools") and not told:
        function = {"name": "stock", "arguments": json.dumps({"sku": "tea"})}
        call = {"id": "call_1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    price = json.loads(told[-1]["content"])["price"] if told else None
    offer = f" We have some at {price:.2f}." if price is not None else ""
    return {"role": "assistant", "content": f"{_ADVICE}{offer}"}, "stop"


def make_warehouse(agent: Agent) -> Starlette:
    """The app."""
    taken: dict[str, int] = {}

    @step("look up")
    def look_up(sku: str) -> Values:
        if sku not in _STOCK:
            raise HTTPException(404, f"there is no {sku}")
        return _STOCK[sku]

    def stock(sku: str) -> Values:
        return {"sku": sku, **look_up(sku)}

    def reserve(wanted: Values) -> Values:
        taken[wanted["sku"]] = taken.get(wanted["sku"], 0) + wanted["quantity"]
        return {**wanted, "reservation": f"r{sum(taken.values())}"}

    def answer(asked: Values) -> Values:
        message, reason = _next_of(asked)
        return {
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 31 * len(asked["messages"]), "completion_tokens": 19},
        }

    app = make_app(
        [
            route("GET", "/stock/{sku}", stock),
            route("POST", "/reservations", reserve),
            route("POST", "/v1/chat/completions", answer),
        ]
    )
    app.add_middleware(agent.asgi)
    return app


Values = dict[str, Any]
Handler = Callable[..., Values]

_SECONDS = 30
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def make_app(routes: Iterable[Route]) -> Starlette:
    """Return an app whose refusals are JSON, too."""
    return Starlette(routes=list(routes), exception_handlers={HTTPException: _refused})


def route(method: str, path: str, handler: Handler) -> Route:
    """Return a route that calls ``handler`` in a thread: with the parts of the path by name, and with
    the body of a POST first."""

    async def endpoint(request: Request) -> Response:
        given = [await request.json()] if method == "POST" else []
        found = await run_in_threadpool(handler, *given, **request.path_params)
        return JSONResponse(found)

    return Route(path, endpoint, methods=[method])


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"detail": error.detail}, error.status_code)


def call(
    url: str, value: Values | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """Return the status and the JSON of a response: to a POST of ``value``, otherwise to a GET."""
    data = None if value is None else json.dumps(value).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, data, sent)
    try:
        with _direct.open(request, timeout=_SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.load(refused)


def main(app: str) -> None:
    """Run an app until it is stopped."""
    threading.Thread(target=_follow, name="demo", daemon=True).start()
    said = os.environ
    with Agent(
        said["DEMO_SERVER"],
        said["DEMO_AGENT_KEY"],
        app=app,
        environment=said["DEMO_ENVIRONMENT"],
        name=f"{app} 1",
        version="1.4.0",
        data=said["DEMO_DATA"],
    ) as agent:
        made = make_shop(agent, said["DEMO_WAREHOUSE"]) if app == "shop" else make_warehouse(agent)
        config = uvicorn.Config(made, log_level="critical", access_log=False)
        with socket.socket(fileno=int(said["DEMO_SOCKET"])) as sock:
            uvicorn.Server(config).run([sock])


def _follow() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1])
