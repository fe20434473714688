"""Exchanges of a shop, as its agents would send them: no two alike, with steps and what they changed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Final

from bench.traffic import paragraphs
from reenact.exchange.model import (
    Body,
    Change,
    ErrorFacts,
    Exchange,
    Payload,
    Processor,
    RecordingRef,
    Trace,
)
from reenact.exchange.payload import payload_digest
from reenact.server.process.startup import ENTROPY, make_id

__all__ = ["APPS", "ENVIRONMENTS", "RARE", "START", "STEP", "exchanges"]

START: Final = 1_790_000_000_000
STEP: Final = 50
"""Milliseconds from one to the next."""
APPS: Final = ("shop", "warehouse", "billing", "search", "mail")
ENVIRONMENTS: Final = ("staging", "production")
RARE: Final = "GET /reports/{year}"
"""A route that one exchange in 10,000 takes."""
_ROUTES: Final = tuple(
    f"{method} /{noun}{rest}"
    for noun in ("orders", "carts", "customers", "invoices", "items")
    for method, rest in (("GET", ""), ("GET", "/{id}"), ("POST", ""), ("PUT", "/{id}"))
)
_ERRORS: Final = (
    ("builtins.ValueError", "the amount is not a number"),
    ("httpx.ReadTimeout", "the warehouse has not answered"),
    ("sqlalchemy.exc.IntegrityError", "this order is there already"),
)


def exchanges(count: int, seed: int = 0) -> Iterator[Exchange]:
    """``count`` of them, the oldest first. One in 50 failed."""
    source = random.Random(seed)
    text = paragraphs()
    for number in range(count):
        yield _exchange(source, text, number)


def _exchange(source: random.Random, text: list[str], number: int) -> Exchange:
    at = START + number * STEP
    route = RARE if number % 10_000 == 5_000 else source.choice(_ROUTES)
    failed = source.random() < 0.02
    start = _request(source, text, route)
    order = source.randrange(10**9)
    return Exchange(
        exchange_id=make_id("ex", at, source.randbytes(ENTROPY)),
        route_id=route,
        revision="5f0a1c2e9b7d4a63",
        code_version="2026.11.2",
        kind="http",
        started_at=at,
        duration=round(source.lognormvariate(3, 0.8), 3),
        status="failed" if failed else "completed",
        error=_error(source, order) if failed else None,
        start=start,
        start_digest=payload_digest(start),
        redacted=("/headers/3/1",),
        result=_answer(order, failed),
        processors=tuple(_processors(at, order)),
        trace=Trace(trace_id=source.randbytes(16).hex(), span_id=source.randbytes(8).hex()),
        correlation_id=f"order-{order}",
    )


def _error(source: random.Random, order: int) -> ErrorFacts:
    kind, message = source.choice(_ERRORS)
    return ErrorFacts(type=kind, message=f"{message}: order {order}")


def _request(source: random.Random, text: list[str], route: str) -> Payload:
    method, _, path = route.partition(" ")
    lines = [
        {"sku": f"sku-{source.randrange(10_000)}", "count": source.randrange(1, 9), "price": price}
        for price in (source.randrange(10**5) / 100 for _ in range(source.randrange(1, 6)))
    ]
    note = source.choice(text)[:200]
    body = json.dumps({"customer": source.randrange(10**6), "lines": lines, "note": note})
    return Payload(
        headers=(
            ("host", "shop.example.com"),
            ("content-type", "application/json"),
            ("user-agent", "shop-mobile/7.3 (Linux; Android 16)"),
            ("authorization", "[redacted]"),
            ("x-request-id", source.randbytes(16).hex()),
        ),
        body=Body(type="json", text=body, content_type="application/json"),
        properties={
            "http.method": method,
            "http.path": path,
            "http.query": "",
            "http.scheme": "http",
        },
    )


def _answer(order: int, failed: bool) -> Payload:
    said = {"order": order, "state": "failed" if failed else "taken", "total": order % 10_000 / 100}
    return Payload(
        headers=(("content-type", "application/json"),),
        body=Body(type="json", text=json.dumps(said), content_type="application/json"),
        properties={"http.status": 500 if failed else 200},
    )


def _processors(at: int, order: int) -> Iterator[Processor]:
    places = ("/properties/customer", "/properties/prices", "/properties/total", "/body/state")
    for seq, path in enumerate(places, 1):
        change = Change(op="add", path=path, after={"order": order, "value": order % (seq * 1000)})
        yield Processor(
            processor_id=f"step {path.rpartition('/')[2]}",
            seq=seq,
            started_at=at + seq,
            duration=seq / 2,
            changes=(change,),
        )


def with_recording(exchange: Exchange, digest: str, size: int) -> Exchange:
    """The same, with the calls that it made."""
    import msgspec

    return msgspec.structs.replace(exchange, recording=RecordingRef(digest=digest, size=size))
