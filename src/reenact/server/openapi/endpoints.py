"""``GET /api/openapi.json`` and ``GET /api/docs``. They say nothing about anybody, and are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from starlette.responses import HTMLResponse, Response

from reenact.server.asking import Ask
from reenact.server.openapi.describing import describe
from reenact.server.openapi.page import POLICY, to_page
from reenact.server.routing import Endpoint, Handler

__all__ = ["described"]


def described(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """The routes that describe ``endpoints``."""
    return (
        Endpoint("GET", "/api/openapi.json", "open", _answering(endpoints, _as_json)),
        Endpoint("GET", "/api/docs", "open", _answering(endpoints, _as_page)),
    )


def _answering(
    endpoints: Sequence[Endpoint], answer: Callable[[dict[str, object]], Response]
) -> Handler:
    async def handle(ask: Ask) -> Response:
        return answer(describe(endpoints, ask.server.deployment))

    return handle


def _as_json(description: dict[str, object]) -> Response:
    return Response(msgspec.json.encode(description), media_type="application/json")


def _as_page(description: dict[str, object]) -> Response:
    return HTMLResponse(to_page(description), headers={"Content-Security-Policy": POLICY})
