"""The shop: orders are checked, looked up and reserved at the warehouse, and invoiced. It also gives
advice: a model that asks for what it needs to know."""

from __future__ import annotations

import json
from typing import Any, Final

import httpx
from fastapi import FastAPI, HTTPException

from reenact.exchange import Agent, Message, choice, correlation, loop, step

__all__ = ["make_shop"]

Values = dict[str, Any]

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


def make_shop(agent: Agent, warehouse: str) -> FastAPI:
    """The app. ``warehouse`` is where the other one is."""
    app = FastAPI(title="shop")
    client = httpx.Client(base_url=warehouse, trust_env=False, timeout=30)

    @step("check")
    def check(order: Values) -> None:
        if not order.get("items"):
            raise HTTPException(422, "an order without items")

    @step("stock")
    def stock(sku: str) -> Any:
        answer = client.get(f"/stock/{sku}", headers=correlation())
        if answer.status_code == 404:
            raise HTTPException(404, f"there is no {sku}")
        return answer.raise_for_status().json()

    @step("reserve")
    def reserve(sku: str, quantity: int) -> Any:
        wanted = {"sku": sku, "quantity": quantity}
        return client.post("/reservations", json=wanted, headers=correlation()).json()

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

    @app.post("/orders")
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
        answer = client.post("/v1/chat/completions", json=asked).json()
        said: Values = answer["choices"][0]["message"]
        return said

    @app.post("/advice")
    def advise(question: Values) -> Values:
        messages: list[Values] = [
            {"role": "system", "content": "You know all about tea, and sell it."},
            {"role": "user", "content": question["question"]},
        ]
        while calls := (said := ask(messages)).get("tool_calls"):
            messages.append(said)
            for call in calls:
                found = stock(json.loads(call["function"]["arguments"])["sku"])
                told = {"role": "tool", "tool_call_id": call["id"], "content": json.dumps(found)}
                messages.append(told)
        return {"advice": said["content"]}

    app.add_middleware(agent.asgi)
    return app
