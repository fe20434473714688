"""Tools: functions of the program as boundaries, and some that are ready to use.

The names below are loaded when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from reenact.errors import CommandFailed, ToolFailed, WebFailed
    from reenact.tools.exec_tool import exec
    from reenact.tools.process_tool import process
    from reenact.tools.safe_http import Limits
    from reenact.tools.tool import Tool
    from reenact.tools.web_tools import (
        Brave,
        Perplexity,
        Provider,
        Query,
        add_provider,
        web_fetch,
        web_fetcher,
        web_search,
        web_searcher,
    )

_HOME = {
    "reenact.errors": ("CommandFailed", "ToolFailed", "WebFailed"),
    "reenact.tools.process_tool": ("process",),
    "reenact.tools.web_tools": (
        "Brave",
        "Perplexity",
        "Provider",
        "Query",
        "add_provider",
        "web_fetch",
        "web_fetcher",
        "web_search",
        "web_searcher",
    ),
    "reenact.tools.safe_http": ("Limits",),
    "reenact.tools.exec_tool": ("exec",),
    "reenact.tools.tool": ("Tool",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Brave",
    "CommandFailed",
    "Limits",
    "Perplexity",
    "Provider",
    "Query",
    "Tool",
    "ToolFailed",
    "WebFailed",
    "add_provider",
    "exec",
    "process",
    "web_fetch",
    "web_fetcher",
    "web_search",
    "web_searcher",
]


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'reenact.tools' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
