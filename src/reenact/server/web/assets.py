"""Static files of the pages: style sheets, scripts and the icon.

An address contains the digest of all files, so browsers can cache a file permanently. A new version has a
new address.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.responses import Response

from reenact.server.context import RequestContext
from reenact.server.problems import Problem

__all__ = ["address", "send_asset"]

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
