"""Which server is asked for, in the form in which it is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reenact.boundaries.processes.asked import process_call
from reenact.boundaries.urls import normal_url
from reenact.engine.call import CAPABILITIES, Call
from reenact.format.event import Data

__all__ = ["http_call", "stdio_call"]


def stdio_call(given: Mapping[str, Any]) -> Call:
    """A process: its command line, its folder, and the names of what is set in its environment."""
    server = given["server"]
    asked = process_call(
        [server.command, *server.args],
        shell=False,
        executable=None,
        cwd=server.cwd,
        environ=None,
        own={},
    )
    request: Data = {"transport": "stdio", **asked.request}
    if server.env:
        request["env"] = sorted(server.env)
    return _connect(request)


def http_call(given: Mapping[str, Any]) -> Call:
    """A URL. Headers do not count: they say who asks."""
    url = str(given["url"])
    return _connect({"transport": "http", "url": normal_url(url)}, "POST", url)


def _connect(request: Data, method: str = "", url: str = "") -> Call:
    return Call(
        type="nondeterministic",
        capability=CAPABILITIES["mcp"],
        source="mcp",
        operation="connect",
        request=request,
        method=method,
        url=url,
    )
