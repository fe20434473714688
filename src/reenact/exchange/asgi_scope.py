"""The scope of an ASGI request as the start of an exchange, and back."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from urllib.parse import quote

from reenact.exchange.headers import find
from reenact.exchange.http import body_to_send, headers_to_send
from reenact.exchange.model import Payload

__all__ = ["scope_of", "start_of"]


def start_of(scope: MutableMapping[str, Any]) -> Payload:
    """Headers and properties of the request; the body comes later."""
    headers = tuple(
        [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    )
    client = scope.get("client")
    known = {
        "http.method": scope["method"],
        "http.path": scope["path"],
        "http.query": scope.get("query_string", b"").decode("latin-1"),
        "http.scheme": scope.get("scheme", "http"),
        "http.host": find(headers, "host"),
        "http.client": str(client[0]) if client else "",
        "http.root": scope.get("root_path", ""),
    }
    return Payload(headers=headers, properties={name: x for name, x in known.items() if x})


def scope_of(payload: Payload) -> tuple[dict[str, Any], bytes]:
    """A scope that the app takes for the request, and the body."""
    properties = payload.properties
    body = body_to_send(payload)
    path = str(properties.get("http.path") or "/")
    host = str(properties.get("http.host") or "localhost")
    name, _, port = host.rpartition(":") if ":" in host else (host, "", "")
    scheme = str(properties.get("http.scheme") or "http")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": str(properties.get("http.method") or "GET"),
        "scheme": scheme,
        "path": path,
        "raw_path": quote(path, safe="/:@!$&'()*+,;=~-._%").encode("ascii"),
        "query_string": str(properties.get("http.query") or "").encode("latin-1", "replace"),
        "root_path": str(properties.get("http.root") or ""),
        "headers": [
            (key.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for key, value in headers_to_send(payload, body)
        ],
        "client": (str(properties.get("http.client") or "127.0.0.1"), 0),
        "server": (name, int(port) if port.isdigit() else (443 if scheme == "https" else 80)),
        "extensions": {},
    }, body
