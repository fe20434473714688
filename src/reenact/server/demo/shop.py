"""The shop: orders are checked, looked up and reserved at the warehouse, and invoiced. It also gives
advice: a model that asks for what it needs to know."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from reenact.exchange import Agent, Message, choice, correlation, loop, step
from reenact.server.demo.json_http import Values, call, make_app, route

__all__ = ["make_shop"]

_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "stock",
            "description": "What something costs, and how much there is of it.",
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
