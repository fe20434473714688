"""The warehouse: what there is, and who wants it. A model that gives advice lives next door."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, HTTPException

from reenact.exchange import Agent, step

__all__ = ["make_warehouse"]

Values = dict[str, Any]
_STOCK: Final[dict[str, Values]] = {
    "tea": {"price": 4.5, "pallet": 200},
    "pot": {"price": 39.0, "pallet": 24},
    "cup": {"price": 7.9, "pallet": 96},
}
_ADVICE: Final = (
    "Green tea wants water of eighty degrees, and three minutes. Boiling makes it bitter."
)


def make_warehouse(agent: Agent) -> FastAPI:
    """The app."""
    app = FastAPI(title="warehouse")
    taken: dict[str, int] = {}

    @step("look up")
    def look_up(sku: str) -> Values:
        if sku not in _STOCK:
            raise HTTPException(404, f"there is no {sku}")
        return _STOCK[sku]

    @app.get("/stock/{sku}")
    def stock(sku: str) -> Values:
        return {"sku": sku, **look_up(sku)}

    @app.post("/reservations")
    def reserve(wanted: Values) -> Values:
        taken[wanted["sku"]] = taken.get(wanted["sku"], 0) + wanted["quantity"]
        return {**wanted, "reservation": f"r{sum(taken.values())}"}

    @app.post("/v1/chat/completions")
    def answer(asked: Values) -> Values:
        message = {"role": "assistant", "content": _ADVICE}
        return {
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 31, "completion_tokens": 19},
        }

    app.add_middleware(agent.asgi)
    return app
