"""API of captures: ``reenact push`` and ``reenact pull``."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, answer, api
from reenact.server.pagination import ListResponse, page_of
from reenact.server.problems import Problem
from reenact.server.recordings import service
from reenact.server.recordings.service import CaptureView
from reenact.server.storage.exchanges import CaptureFilters

__all__ = ["ENDPOINTS", "capture_filters"]

_BYTES: Final = ("application/octet-stream",)


def capture_filters(context: RequestContext, since: int, until: int) -> CaptureFilters:
    """Return the filters of a list of captures."""
    return CaptureFilters(text=context.query("text"), since=since, until=until)


async def _push(context: RequestContext) -> Response:
    """201; 200 for a capture that was stored before."""
    content = context.request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content not in _BYTES:
        raise Problem("unsupported", f"the body has to be {_BYTES[0]}")
    async with context.taken(context.server.limits.capture) as data:
        view, is_new = await service.store_capture(context, data)
    return answer(view, 201 if is_new else 200)


async def _search(context: RequestContext) -> ListResponse[CaptureView]:
    page, since = page_of(context), context.number("since", 0)
    filters = capture_filters(context, since, context.number("until", 0))
    return await service.search_captures(context, filters, page)


async def _pull(context: RequestContext) -> Response:
    data = await service.read_content(context, context.path("id"))
    return Response(data, media_type=_BYTES[0])


ENDPOINTS: Final = (
    api(
        "POST",
        "/api/v1/captures",
        "capture:write",
        _push,
        "Push a capture",
        takes=_BYTES,
        answers=CaptureView,
        status=(201, 200),
        codes=("payload_invalid", "rate_limited", "unavailable"),
    ),
    api(
        "GET",
        "/api/v1/captures",
        "capture:read",
        _search,
        "Find captures",
        query=(*PAGED, "text", "since", "until"),
        lists=CaptureView,
    ),
    api(
        "GET",
        "/api/v1/captures/{id}",
        "capture:read",
        _pull,
        "A capture, packed",
        media=_BYTES,
        codes=("gone",),
    ),
)
