"""Injection of Reenact into child processes, through their environment.

Separate from :mod:`.popen`, which is imported only when the program imports ``subprocess``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Injection", "inject_with", "injected"]

Injection = Callable[[Mapping[Any, Any], str], dict[Any, Any]]
"""From the environment of a process, and its lane, to one in which a Python takes part."""

_injections: list[Injection] = []


def inject_with(injection: Injection | None) -> None:
    """Set the function that prepares the environment of child processes to take part, or None."""
    _injections[:] = [] if injection is None else [injection]


def injected(environ: Mapping[Any, Any], lane: str) -> dict[Any, Any] | None:
    """Return ``environ`` for a process in ``lane``, or None if child processes do not take part."""
    return _injections[0](environ, lane) if _injections else None
