"""Definition of a route, with its required permission, its API description and its responses.

A route cannot be added without a permission or an explicit ``open``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from reenact.server.auth.permissions import Permission
from reenact.server.context import RequestContext
from reenact.server.problems import Problem

__all__ = [
    "PAGED",
    "ApiDescription",
    "Endpoint",
    "Handler",
    "Method",
    "Needs",
    "answer",
    "answer_problem",
    "api",
    "to_response",
]

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Handler = Callable[[RequestContext], Awaitable[Response | msgspec.Struct | None]]
"""A struct is answered as JSON with 200, None as 204."""

Needs = Permission | Literal["open", "known"] | tuple[Permission, ...]
"""``open`` needs nothing, ``known`` a valid credential; of several permissions one is enough to get
to the handler, which looks closer."""


PAGED: Final = ("limit", "cursor")
"""Query parameters of every list."""


class ApiDescription(msgspec.Struct, frozen=True):
    """Description of an API route, for OpenAPI.

    ``takes`` is the type of a JSON body, or the media types of a different one. ``words`` has the
    allowed values of query parameters. ``answers`` is the type of the JSON response, ``lists`` the
    type of the items of a list; without either the response has ``media``, or no content. ``codes``
    are additional problem codes.
    """

    summary: str
    takes: Any = None
    query: tuple[str, ...] = ()
    words: dict[str, tuple[str, ...]] = {}
    answers: Any = None
    lists: Any = None
    media: tuple[str, ...] = ()
    status: tuple[int, ...] = (200,)
    codes: tuple[str, ...] = ()


class Endpoint(msgspec.Struct, frozen=True):
    """One route.

    ``path`` is in Starlette's notation. A ``page`` is for browsers: its forms carry the session's
    token, and problems are shown as pages. An API route has a description in ``says``.
    """

    method: Method
    path: str
    needs: Needs
    handler: Handler
    page: bool = False
    says: ApiDescription | None = None


def api(
    method: Method,
    path: str,
    needs: Needs,
    handler: Handler,
    summary: str,
    *,
    takes: Any = None,
    query: tuple[str, ...] = (),
    words: dict[str, tuple[str, ...]] | None = None,
    answers: Any = None,
    lists: Any = None,
    media: tuple[str, ...] = (),
    status: tuple[int, ...] = (200,),
    codes: tuple[str, ...] = (),
) -> Endpoint:
    """Return an API route with its :class:`ApiDescription`."""
    says = ApiDescription(summary, takes, query, words or {}, answers, lists, media, status, codes)
    return Endpoint(method, path, needs, handler, says=says)


def answer(value: msgspec.Struct, status: int = 200) -> Response:
    """``value`` as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def to_response(result: Response | msgspec.Struct | None) -> Response:
    """Return the response for the result of a handler."""
    if result is None:
        return Response(status_code=204)
    return result if isinstance(result, Response) else answer(result)


def answer_problem(problem: Problem, request_id: str) -> Response:
    """The one shape of errors."""
    response = answer(problem.body(request_id), problem.status)
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 408:
        response.headers["Connection"] = "close"  # the rest of the body is not waited for
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
