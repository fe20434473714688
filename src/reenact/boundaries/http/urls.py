"""URLs in the form in which they are compared."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes, urlsplit

__all__ = ["PORTS", "normal_url"]

PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""The ports that go without saying."""

_PATH = ":@!$&'()*+,;=~"
_QUERY = "/:@!$'()*,;~?"


_LONGEST_KEPT = 2_048


def normal_url(url: str) -> str:
    """Normalise a URL: scheme and host in lower case, no default port, no credentials, no fragment,
    uniform escaping, and parameters sorted by name.

    Parameters with the same name keep their order. An escaped slash is not a slash. A URL that
    cannot be parsed is unchanged. The function is idempotent.
    """
    return _kept(url) if len(url) <= _LONGEST_KEPT else _normal(url)


@lru_cache(maxsize=4096)
def _kept(url: str) -> str:
    return _normal(url)


def _normal(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    if not parts.scheme or not parts.hostname:
        return url
    host = _plain(parts.hostname)
    if port is not None and port != PORTS.get(parts.scheme):
        host = f"{host}:{port}"
    path = "/".join(_escaped(step, _PATH) for step in parts.path.split("/")) or "/"
    query = f"?{_sorted(parts.query)}" if parts.query.strip("&") else ""
    return f"{parts.scheme}://{host}{path}{query}"


def _plain(host: str) -> str:
    """Return the host in lower case.

    International names are converted to ASCII, and IPv6 addresses get brackets.
    """
    if ":" in host:
        return f"[{host.lower()}]"
    if not host.isascii():
        try:
            return host.encode("idna").decode("ascii").lower()
        except UnicodeError:
            pass  # then it equals no name but itself
    return host.lower()


def _sorted(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.replace("+", "%20").split("&") if pair]
    escaped = [
        (_escaped(name, _QUERY), equals, _escaped(value, _QUERY)) for name, equals, value in pairs
    ]
    return "&".join("".join(pair) for pair in sorted(escaped, key=lambda pair: pair[0]))


def _escaped(text: str, safe: str) -> str:
    return quote(unquote_to_bytes(text.encode("utf-8", "surrogatepass")), safe=safe)
