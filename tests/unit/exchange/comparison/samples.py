"""Exchanges to compare."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reenact.exchange.comparison.calls import Call
from reenact.exchange.comparison.compare import compare
from reenact.exchange.comparison.result import Comparison
from reenact.exchange.comparison.route_noise import read_rules
from reenact.exchange.model import Body, ErrorFacts, Exchange, Payload, Processor, ReplayOf
from reenact.policy.noise import NoiseRule


def payload(body: Any = None, *, headers: dict[str, str] | None = None, **more: Any) -> Payload:
    kind = Body() if body is None else Body(type="json", text=json.dumps(body))
    return Payload(headers=tuple((headers or {}).items()), body=kind, properties=more)


def exchange(
    name: str = "x-1",
    *,
    start: Payload | None = None,
    result: Payload | None = None,
    processors: Sequence[Processor] = (),
    error: str = "",
    status: int | None = None,
    divergences: Sequence[dict[str, Any]] = (),
) -> Exchange:
    result = result or payload({"ok": True})
    if status is not None:
        result = Payload(body=result.body, properties={"http.status": status})
    return Exchange(
        exchange_id=name,
        route_id="POST /orders",
        started_at=1_750_000_000_000,
        start=start or payload({"amount": 1}),
        result=result,
        status="failed" if error else "completed",
        error=ErrorFacts(type=error, message="no") if error else None,
        processors=tuple(processors),
        replay=ReplayOf(replay_id="r-1", source_exchange_id="x-0", divergences=tuple(divergences))
        if divergences
        else None,
    )


def step(
    name: str, seq: int, parent: int = 0, iteration: int | None = None, **more: Any
) -> Processor:
    return Processor(
        processor_id=name, seq=seq, parent_seq=parent, iteration=iteration, duration=1.0, **more
    )


def call(
    seq: int, operation: str = "GET https://a.example/x", kind: str = "network", **more: Any
) -> Call:
    return Call(seq=seq, lane="0", position=seq, type=kind, operation=operation, **more)


def rules(*given: dict[str, Any]) -> tuple[NoiseRule, ...]:
    return read_rules(list(given))


def of_results(before: Any, after: Any, *given: dict[str, Any]) -> Comparison:
    """Two exchanges that differ in what came out."""
    return compare(
        exchange(result=payload(before)), exchange(result=payload(after)), rules=rules(*given)
    )
