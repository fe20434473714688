"""Recording and replay of an app's exchanges: requests, routes and queue jobs.

The names are imported when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from reenact.exchange.agent import Agent
    from reenact.exchange.context import correlation, is_replay
    from reenact.exchange.message import Headers, Message
    from reenact.exchange.steps import aloop, choice, loop, split, step

_HOME = {
    "Agent": "agent",
    "Headers": "message",
    "Message": "message",
    "aloop": "steps",
    "choice": "steps",
    "correlation": "context",
    "is_replay": "context",
    "loop": "steps",
    "split": "steps",
    "step": "steps",
}

__all__ = [
    "Agent",
    "Headers",
    "Message",
    "aloop",
    "choice",
    "correlation",
    "is_replay",
    "loop",
    "split",
    "step",
]


def __getattr__(name: str) -> Any:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'reenact.exchange' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"reenact.exchange.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
