"""Answers: structs as JSON, lists, problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec
from starlette.responses import Response

from reenact.server.problems import Problem

__all__ = ["ListResponse", "answer", "answer_problem", "list_response", "to_response"]


T = TypeVar("T")
Row = TypeVar("Row")


class ListResponse(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; ``next`` is the cursor of the following page."""

    items: list[T]
    next: str | None = None


def list_response(
    rows: Sequence[Row], limit: int, show: Callable[[Row], T], cursor: Callable[[Row], str]
) -> ListResponse[T]:
    """Return one page. ``rows`` has more than ``limit`` items if there is another page, which
    starts after the ``cursor`` of the last shown row."""
    shown = rows[:limit]
    following = cursor(shown[-1]) if len(rows) > limit else None
    return ListResponse([show(row) for row in shown], following)


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
