"""JSON over HTTP for the apps of the demo: served by Starlette, called with the standard library."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

__all__ = ["Values", "call", "make_app", "route"]

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
