"""Error pages: problems rendered for browsers, and redirects to the sign-in page."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from reenact.server.auth.authentication import SAFE, authenticate
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.runtime import Principal, Server
from reenact.server.web.components.html import Child, Html, link, tag, url
from reenact.server.web.components.layout import alert, bare, page
from reenact.server.web.expired_session import (
    SavedForm,
    resend_form,
    save_form,
    saved_summary,
    sign_in_page,
)

__all__ = ["error_page", "is_browser", "plain_error_page", "unknown_route_page", "wants_page"]


_PROGRAMS: Final = ("/api/", "/v1/")
"""Below these a browser gets what programs get."""


def is_browser(request: Request) -> bool:
    """Return whether the client wants a page. Other clients get problems as JSON."""
    return "text/html" in request.headers.get("accept", "")


def path_of(request: Request) -> str:
    """Return the path as it was sent. ``request.url`` also depends on the ``Host`` header."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.decode("latin-1")


def query_of(request: Request) -> str:
    """Return the query string as it was sent."""
    raw: bytes = request.scope["query_string"]
    return raw.decode("latin-1")


def wants_page(request: Request) -> bool:
    """Return whether an error of an unknown route is rendered as a page."""
    return is_browser(request) and not path_of(request).startswith(_PROGRAMS)


def plain_error_page(problem: Problem, request_id: str) -> Response:
    """Return an error page without any lookup."""
    return bare(
        _title(problem),
        alert(problem),
        tag("p", link("/", "To the start"), class_="ways"),
        tag("p", f"Request {request_id}", class_="dim"),
        status=problem.status,
    )


async def error_page(
    server: Server, request: Request, principal: Principal | None, problem: Problem, request_id: str
) -> Response:
    """Return an error page for a browser. ``principal`` is None if the visitor is not signed in."""
    if problem.status == 401:
        return await _unknown(server, request, problem)
    if principal is None:
        return plain_error_page(problem, request_id)
    context = RequestContext(request, server, principal)
    old = await save_form(server, request) if problem.code == "csrf_failed" else None
    return page(
        context,
        _title(problem),
        alert(problem),
        tag("p", *_ways(request, problem), class_="ways"),
        _of_another_session(context, old) if old is not None else None,
        tag("p", f"Request {request_id}", class_="dim"),
        status=problem.status,
    )


def _ways(request: Request, problem: Problem) -> tuple[Child, ...]:
    """Return links to the start and, for invalid filters, to the same page without them."""
    start, path = link("/", "To the start"), path_of(request)
    asks = request.method in SAFE and query_of(request) and problem.status in _MISTAKES
    if not asks or path.startswith("//"):  # which would lead to another host
        return (start,)
    return link(path, "Show it without these filters"), " · ", start


_MISTAKES: Final = (400, 422)
_TITLES: Final = {
    403: "Not allowed",
    404: "Not found",
    410: "Not any more",
    429: "Too much at once",
    500: "Something broke",
    503: "Not now",
    507: "Storage full",
}


def _title(problem: Problem) -> str:
    return _TITLES.get(problem.status, "Not like this")


async def unknown_route_page(
    server: Server, request: Request, problem: Problem, request_id: str
) -> Response:
    """Return the error page for an address without a route."""
    try:
        principal = await authenticate(server, request)
    except Problem:
        principal = None
    return await error_page(server, request, principal, problem, request_id)


def _of_another_session(context: RequestContext, kept: SavedForm) -> Html:
    """Offer to send a form again whose token belongs to an earlier session of the user."""
    return tag(
        "section",
        tag("p", "If it is a form of yours from before you signed in, it can be sent once more."),
        resend_form(context, kept, "Send it once more"),
        saved_summary(kept),
    )


async def _unknown(server: Server, request: Request, problem: Problem) -> Response:
    if request.method in SAFE:
        query = f"?{query_of(request)}" if query_of(request) else ""
        return RedirectResponse(url("/signin", next=f"{path_of(request)}{query}"), 303)
    context, kept = RequestContext(request, server, None), await save_form(server, request)
    if kept is not None:
        return sign_in_page(context, kept)
    return bare(
        "Your session has ended",
        alert(problem),
        tag(
            "p",
            "Nothing was changed. The request is too large to be stored, or is not a form of this page.",
        ),
        tag("p", link("/signin", "Sign in", class_="button main")),
        status=401,
    )
