"""Problems, for browsers: a page that says what is wrong, or the way to sign in."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from reenact.server.asking import Ask
from reenact.server.pages.markup import link, tag, url
from reenact.server.pages.shell import alert, bare, page
from reenact.server.people.csrf import SAFE
from reenact.server.ports import Principal, Server
from reenact.server.problems import Problem

__all__ = ["answer_browser", "is_browser"]


def is_browser(request: Request) -> bool:
    """Does it ask for a page? Programs get problems as JSON, here as anywhere."""
    return "text/html" in request.headers.get("accept", "")


def answer_browser(
    server: Server, request: Request, principal: Principal | None, problem: Problem, request_id: str
) -> Response:
    """``principal`` is None for somebody who is not known."""
    said = tag("p", f"Request {request_id}", class_="dim")
    if principal is None or problem.status == 401:
        return _unknown(request, problem)
    ask = Ask(request, server, principal)
    return page(
        ask,
        _TITLES.get(problem.status, "Not like this"),
        alert(problem),
        said,
        status=problem.status,
    )


_TITLES = {403: "Not allowed", 404: "Not found", 429: "Too much at once", 500: "Something broke"}


def _unknown(request: Request, problem: Problem) -> Response:
    if problem.status != 401:
        return bare("Not like this", alert(problem), status=problem.status)
    if request.method in SAFE:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(url("/signin", next=f"{request.url.path}{query}"), 303)
    return bare(
        "Your session has ended",
        alert(problem),
        tag(
            "p",
            "Nothing was done. Go back to copy what you typed, sign in, and open the form anew: the "
            "old one belongs to the session that has ended.",
        ),
        tag("p", link("/signin", "Sign in", target="_blank", rel="noopener", class_="button main")),
        status=401,
    )
