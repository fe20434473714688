"""Page layout: document head, content security policy, navigation, alerts and static files.

The address of a static file contains the digest of all files, so browsers can cache it permanently.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.responses import Response

from reenact.server.auth.permissions import Permission, has_anywhere
from reenact.server.context import RequestContext
from reenact.server.problems import Problem
from reenact.server.web.components.html import Child, Html, fragment, link, tag

__all__ = [
    "POLICY",
    "address",
    "alert",
    "bare",
    "csrf",
    "page",
    "send",
    "send_asset",
]

POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_PLACES: Final[tuple[tuple[str, str, Permission], ...]] = (
    ("/exchanges", "History", "exchange:read"),
    ("/replays", "Replays", "exchange:read"),
    ("/batches", "Batches", "exchange:read"),
    ("/agents", "Agents", "agent:read"),
    ("/recordings", "Recordings", "capture:read"),
    ("/audit", "Audit", "audit:read"),
    ("/people", "People", "tenant:admin"),
    ("/keys", "Keys", "tenant:admin"),
    ("/environments", "Environments", "agent:read"),
    ("/tenants", "Tenants", "platform:admin"),
)


def page(
    context: RequestContext,
    title: str,
    *body: Child,
    here: str = "",
    status: int = 200,
    heading: Child = None,
    head: Sequence[Html] = (),
) -> Response:
    """Return a page for a signed-in user.

    ``here`` is the active navigation entry; ``heading`` appears next to the title.
    """
    top = tag("div", tag("h1", title), heading, class_="title")
    inside = fragment(
        link("#main", "Skip to the content", class_="skip"),
        _header(context, here),
        tag("main", top, *body, id="main", tabindex="-1"),
    )
    return send(title, inside, status=status, head=head)


def bare(
    title: str, *body: Child, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a page for a visitor who is not signed in."""
    inside = tag("main", tag("p", "Reenact", class_="brand"), tag("h1", title), *body, id="main")
    return send(title, inside, status=status, kind="narrow", headers=headers)


def send(
    title: str,
    inside: Html,
    *,
    status: int = 200,
    head: Sequence[Html] = (),
    kind: str = "wide",
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a complete document as a response."""
    html = tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{title} – Reenact"),
            tag("link", rel="icon", href=address("icon.svg"), type="image/svg+xml"),
            tag("link", rel="stylesheet", href=address("page.css")),
            tag("link", rel="stylesheet", href=address("exchange.css")),
            tag("script", type="module", src=address("page.js")),
            *head,
        ),
        tag("body", inside, class_=kind),
        lang="en",
    )
    data = f"<!doctype html>\n{html}".encode("utf-8", "replace")
    sent = {"Content-Security-Policy": POLICY, **(headers or {})}
    return Response(data, status, sent, "text/html; charset=utf-8")


def _header(context: RequestContext, here: str) -> Html:
    who, now = context.principal, context.server.now()
    places = [
        tag("li", link(path, label, aria_current="page" if path == here else None))
        for path, label, permission in _PLACES
        if has_anywhere(who.grants, permission, now)
    ]
    return tag(
        "header",
        link("/", "Reenact", class_="brand"),
        tag("nav", tag("ul", *places), aria_label="Sections"),
        tag(
            "div",
            tag("span", who.name, class_="who", title=who.name),
            tag("span", who.tenant.name, class_="dim"),
            tag(
                "form",
                csrf(context),
                tag("button", "Sign out", class_="quiet"),
                method="post",
                action="/signout",
            ),
            class_="me",
        ),
    )


def csrf(context: RequestContext) -> Html:
    """Return the hidden field with the token of the session."""
    return tag("input", type="hidden", name="csrf", value=context.principal.csrf)


def alert(problem: Problem, *, hint: Child = None) -> Html:
    """Render a problem with its ``hint``."""
    way = hint or problem.hint
    return tag(
        "div",
        tag("p", tag("strong", problem.message), " ", tag("code", problem.code, class_="dim")),
        tag("p", way) if way else None,
        role="alert",
        class_="alert",
    )


_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_NAMES: Final = ("page.css", "exchange.css", "page.js", "editor.js", "live.js", "icon.svg")
_KEPT: Final = {"Cache-Control": "public, max-age=31536000, immutable"}


@cache
def _contents() -> dict[str, bytes]:
    folder = files("reenact.server.web") / "static"
    return {name: (folder / name).read_bytes() for name in _NAMES}


@cache
def _version() -> str:
    return sha256(b"\0".join(_contents().values())).hexdigest()[:16]


def address(name: str) -> str:
    """Return the address of a static file."""
    return f"/static/{_version()}/{name}"


async def send_asset(context: RequestContext) -> Response:
    """Handle ``GET /static/{version}/{name}``: send the file, or 404 for a different version."""
    name = context.path("name")
    content = _contents().get(name)
    if content is None or context.path("version") != _version():
        raise Problem("not_found", "there is no such file")
    return Response(content, headers=_KEPT, media_type=_TYPES[name.rpartition(".")[2]])
