"""``@reenact.tool``: a function of the program that a model, or the program, uses as a tool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from reenact.errors import UsageError
from reenact.tools.calling import Tool
from reenact.tools.said import Again, Said

__all__ = ["Tool", "tool"]

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(
    function: Callable[P, R],
    *,
    name: str = ...,
    description: str = ...,
    replay: Again = ...,
    volatile: tuple[str, ...] = ...,
    hidden: tuple[str, ...] = ...,
) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str = ...,
    description: str = ...,
    replay: Again = ...,
    volatile: tuple[str, ...] = ...,
    hidden: tuple[str, ...] = ...,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Any = None,
    *,
    name: str = "",
    description: str = "",
    replay: Again = "stub",
    volatile: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
) -> Any:
    """A tool made of ``function``: a function, a coroutine function, a generator of either kind, a
    method, or any other callable.

    Its calls are recorded as ``tool_call`` and ``tool_result``, with all that it does inside in a
    lane of its own. In a replay it is not run (``stub``). With ``replay="re-execute"`` it is: what
    it calls is served from its lane, and what it returns is compared. ``pass`` lets it run
    unrecorded, where the policy allows that. A rule of the policy goes before what is said here.

    ``volatile`` are places in the result that differ in every run (``"tookMs"``, ``"$.a.at"``), and
    in the ``details`` of its exceptions: they are never compared, and do not count for the content
    hash. ``hidden`` are arguments that are no part of the call: a context, a
    client. ``name`` and ``description`` are those of the function unless they are given.
    """
    said = Said(name=name, description=description, replay=replay, volatile=volatile, hidden=hidden)
    return (lambda real: _made(real, said)) if function is None else _made(function, said)


def _made(function: Any, said: Said) -> Any:
    if isinstance(function, Tool):
        return function if said == Said() else Tool(function.function, said)
    if isinstance(function, classmethod):
        return Tool(function.__func__, said, of_class=True)
    if isinstance(function, staticmethod):
        return staticmethod(Tool(function.__func__, said))
    if not callable(function):
        raise UsageError(
            f"a {type(function).__qualname__} cannot be a tool: it cannot be called",
            hint="@reenact.tool on a function, or reenact.tool(callable, name=…)",
        )
    return Tool(function, said)
