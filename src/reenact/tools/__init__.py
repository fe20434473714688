"""Tools: functions of the program as boundaries, and some that are ready to use.

The names below are loaded when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from reenact.errors import CommandFailed, ToolFailed, WebFailed
    from reenact.tools.controlling import process
    from reenact.tools.fetch import web_fetch, web_fetcher
    from reenact.tools.providers import Brave, Perplexity, Provider, Query, add_provider
    from reenact.tools.reach import Limits
    from reenact.tools.search import web_search, web_searcher
    from reenact.tools.shell import exec
    from reenact.tools.wrapping import Tool

_HOME = {
    "reenact.errors": ("CommandFailed", "ToolFailed", "WebFailed"),
    "reenact.tools.controlling": ("process",),
    "reenact.tools.fetch": ("web_fetch", "web_fetcher"),
    "reenact.tools.providers": ("Brave", "Perplexity", "Provider", "Query", "add_provider"),
    "reenact.tools.reach": ("Limits",),
    "reenact.tools.search": ("web_search", "web_searcher"),
    "reenact.tools.shell": ("exec",),
    "reenact.tools.wrapping": ("Tool",),
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
