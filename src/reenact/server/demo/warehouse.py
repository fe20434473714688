"""The warehouse: what there is, and who wants it. A model that gives advice lives next door."""

from __future__ import annotations

import json
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from reenact.exchange import Agent, step
from reenact.server.demo.json_http import Values, make_app, route

__all__ = ["make_warehouse"]

_STOCK: Final[dict[str, Values]] = {
    "tea": {"price": 4.5, "pallet": 200},
    "pot": {"price": 39.0, "pallet": 24},
    "cup": {"price": 7.9, "pallet": 96},
}
_ADVICE: Final = (
    "Green tea wants water of eighty degrees, and three minutes. Boiling makes it bitter."
)


def _next_of(asked: Values) -> tuple[Values, str]:
    """What the model says next, and why it stops: it looks up the price first, if it can."""
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
