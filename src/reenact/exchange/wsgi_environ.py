"""The environ of a WSGI request as the start of an exchange, and back; the rules of a Flask app."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Any

from reenact.exchange.headers import find
from reenact.exchange.http import body_to_send, headers_to_send
from reenact.exchange.matching import HttpRoute
from reenact.exchange.model import Header, Payload

__all__ = ["FlaskMap", "environ_of", "start_of"]

Environ = dict[str, Any]
_BARE = {"CONTENT_TYPE": "content-type", "CONTENT_LENGTH": "content-length"}


def start_of(environ: Environ) -> Payload:
    """Headers and properties of the request; the body comes later."""
    headers = tuple(_headers(environ))
    known = {
        "http.method": environ.get("REQUEST_METHOD", "GET"),
        "http.path": _text(environ.get("PATH_INFO") or "/"),
        "http.query": environ.get("QUERY_STRING", ""),
        "http.scheme": environ.get("wsgi.url_scheme", "http"),
        "http.host": find(headers, "host"),
        "http.client": environ.get("REMOTE_ADDR", ""),
        "http.root": environ.get("SCRIPT_NAME", ""),
    }
    return Payload(headers=headers, properties={name: str(x) for name, x in known.items() if x})


def _headers(environ: Environ) -> list[Header]:
    found = [(_BARE[name], str(environ[name])) for name in _BARE if environ.get(name)]
    for name, value in environ.items():
        if name.startswith("HTTP_"):
            found.append((name[5:].replace("_", "-").lower(), str(value)))
    return found


def _text(path: str) -> str:
    """PEP 3333 has bytes as Latin-1."""
    return path.encode("latin-1", "replace").decode("utf-8", "replace")


def environ_of(payload: Payload) -> Environ:
    """An environ that the app takes for the request."""
    properties = payload.properties
    body = body_to_send(payload)
    scheme = str(properties.get("http.scheme") or "http")
    host = str(properties.get("http.host") or "localhost")
    name, _, port = host.rpartition(":") if ":" in host else (host, "", "")
    environ: Environ = {
        "REQUEST_METHOD": str(properties.get("http.method") or "GET"),
        "SCRIPT_NAME": str(properties.get("http.root") or ""),
        "PATH_INFO": str(properties.get("http.path") or "/").encode().decode("latin-1"),
        "QUERY_STRING": str(properties.get("http.query") or ""),
        "SERVER_NAME": name,
        "SERVER_PORT": port or ("443" if scheme == "https" else "80"),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": str(properties.get("http.client") or "127.0.0.1"),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for key, value in headers_to_send(payload, body):
        _put(environ, key.lower(), value)
    return environ


def _put(environ: Environ, name: str, value: str) -> None:
    """Repeated headers become one, as servers do it."""
    bare = {spelled: key for key, spelled in _BARE.items()}.get(name)
    key = bare or f"HTTP_{name.upper().replace('-', '_')}"
    joint = "; " if name == "cookie" else ","
    environ[key] = f"{environ[key]}{joint}{value}" if key in environ and not bare else value


class FlaskMap:
    """Of a Flask app, given itself or its ``wsgi_app``; empty for another app."""

    def __init__(self, app: Any) -> None:
        self._owner = app if hasattr(app, "url_map") else getattr(app, "__self__", None)

    def routes(self) -> Iterable[HttpRoute]:
        """See :class:`reenact.exchange.matching.Map`."""
        rules = getattr(self._owner, "url_map", None)
        if rules is None:
            return []
        views = getattr(self._owner, "view_functions", {})
        return [
            HttpRoute(rule.rule, frozenset(rule.methods or ("GET",)), views.get(rule.endpoint))
            for rule in rules.iter_rules()
        ]

    def template_of(self, method: str, path: str, root: str) -> str | None:
        """See :class:`reenact.exchange.matching.Map`; with WSGI a path is without its root."""
        rules = getattr(self._owner, "url_map", None)
        if rules is None:
            return None
        from werkzeug.exceptions import HTTPException

        try:
            rule, _ = rules.bind("localhost").match(path, method=method, return_rule=True)
        except HTTPException:  # nothing there, another method, or a slash too few
            return None
        return str(rule.rule)
