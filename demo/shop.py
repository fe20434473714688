"""A small shop: an order is checked and paid for. Three of its lines are Reenact's."""

from __future__ import annotations

import os
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException

from reenact.exchange import Agent, step

agent = Agent(
    os.environ["REENACT_SERVER"], os.environ["SHOP_AGENT_KEY"], app="shop", environment="staging"
)
app = FastAPI()
app.add_middleware(agent.asgi)

bank = httpx.Client(base_url=os.environ["MODEL_SERVER"], trust_env=False)


@step
def check(order: dict[str, Any]) -> None:
    if order["amount"] > 500:
        raise HTTPException(422, "no order is larger than 500")


@step
def pay(order: dict[str, Any]) -> Any:
    return bank.post("/payments", json={"amount": order["amount"]}).raise_for_status().json()


@app.post("/orders")
def take_order(order: dict[str, Any]) -> dict[str, Any]:
    check(order)
    return {"item": order["item"], "payment": pay(order)}
