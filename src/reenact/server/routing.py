"""The table of routes: each says its permission, or that it is open. There is no other way to add
a route, and so none that forgot to ask."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import msgspec
from starlette.responses import Response

from reenact.server.access import Permission
from reenact.server.asking import Ask

__all__ = ["Endpoint", "Handler", "Needs"]

Handler = Callable[[Ask], Awaitable[Response | msgspec.Struct | None]]
"""A struct is answered as JSON with 200, None as 204."""

Needs = Permission | Literal["open", "known"] | tuple[Permission, ...]
"""``open`` needs nothing, ``known`` a valid credential; of several permissions one is enough to get
to the handler, which looks closer."""


class Endpoint(msgspec.Struct, frozen=True):
    """``path`` is in Starlette's notation. A ``page`` is for browsers: it is asked for with forms that
    carry the token of the session, and problems are shown as pages."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    needs: Needs
    handler: Handler
    page: bool = False
