"""URLs in the form in which they are compared."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote, unquote_plus, urlsplit

__all__ = ["normal_url"]

_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_PATH = "/:@!$&'()*+,;=~"
_QUERY = "/:@!$'()*,;~?"


@lru_cache(maxsize=4096)
def normal_url(url: str) -> str:
    """Scheme and host in lower case, no port that goes without saying, no credentials, no
    fragment, one way of escaping, and the parameters sorted by name.

    Parameters of the same name keep their order. What cannot be read stays as it is.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").lower()
    if ":" in host:
        host = f"[{host}]"
    if port is not None and port != _PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    path = quote(unquote(parts.path, "latin-1"), safe=_PATH, encoding="latin-1") or "/"
    query = f"?{_sorted(parts.query)}" if parts.query else ""
    return f"{parts.scheme}://{host}{path}{query}"


def _sorted(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    escaped = [(_escape(name), equals, _escape(value)) for name, equals, value in pairs]
    return "&".join("".join(pair) for pair in sorted(escaped, key=lambda pair: pair[0]))


def _escape(text: str) -> str:
    return quote(unquote_plus(text, "latin-1"), safe=_QUERY, encoding="latin-1")
