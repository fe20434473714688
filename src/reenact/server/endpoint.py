"""The table of routes: each says its permission, or that it is open. There is no other way to add
a route, and so none that forgot to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import msgspec
from starlette.responses import Response

from reenact.server.auth.permissions import Permission
from reenact.server.context import RequestContext

__all__ = ["PAGED", "ApiDescription", "Endpoint", "Handler", "Needs"]

Handler = Callable[[RequestContext], Awaitable[Response | msgspec.Struct | None]]
"""A struct is answered as JSON with 200, None as 204."""

Needs = Permission | Literal["open", "known"] | tuple[Permission, ...]
"""``open`` needs nothing, ``known`` a valid credential; of several permissions one is enough to get
to the handler, which looks closer."""


PAGED: Final = ("limit", "cursor")
"""What every list takes."""


class ApiDescription(msgspec.Struct, frozen=True):
    """What a route of the API is for, takes and answers: its description is made of this.

    ``takes`` is the type of a JSON body, or the media types of another one; ``words`` are those that a
    field of the query may be, where it is not any text. ``answers`` is the type of
    the JSON answer, ``lists`` that of the items of a list; with neither the answer has ``media``, or
    no content when there is none. ``codes`` are those of problems beyond what follows from the rest.
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
    """``path`` is in Starlette's notation. A ``page`` is for browsers: it is asked for with forms that
    carry the token of the session, and problems are shown as pages. What is for programs ``says`` what it is."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    needs: Needs
    handler: Handler
    page: bool = False
    says: ApiDescription | None = None
