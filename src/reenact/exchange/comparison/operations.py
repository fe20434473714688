"""What a call is called: without what changes from call to call."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

__all__ = ["name_operation", "request_in"]

_ASIDE = ("source", "op", "type", "ok")
"""Fields that say which sort of call it is, and not what was asked."""


def name_operation(name: str, request: Any) -> str:
    """``GET https://host/path`` for what has a URL, else ``name``."""
    url = request.get("url") if isinstance(request, dict) else None
    if not isinstance(url, str):
        return name
    method = request.get("method")
    try:
        parts = urlsplit(url)
    except ValueError:
        return name
    return f"{method or name} {parts.scheme}://{parts.netloc}{parts.path}"


def request_in(data: dict[str, Any]) -> Any:
    """What was asked, of the data of an event."""
    request = data.get("request")
    if request is not None:
        return request
    return {name: item for name, item in data.items() if name not in (*_ASIDE, "request")}
