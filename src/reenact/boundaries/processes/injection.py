"""How a process is told to take part: said by whoever runs the program, asked when one starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Injection", "inject_with", "injected"]

Injection = Callable[[Mapping[Any, Any], str], dict[Any, Any]]
"""From the environment of a process, and its lane, to one in which a Python takes part."""

_injections: list[Injection] = []


def inject_with(injection: Injection | None) -> None:
    """How processes that are started from now on are told to take part; None: they are not."""
    _injections[:] = [] if injection is None else [injection]


def injected(environ: Mapping[Any, Any], lane: str) -> dict[Any, Any] | None:
    """``environ`` for a process in ``lane``; None where nobody runs the program."""
    return _injections[0](environ, lane) if _injections else None
