"""Original methods of asyncio loops, bound before they are patched.

Other loops, such as uvloop's, are not patched, and their delivery order is approximate. Must be
imported before the patches of ``event_loop`` are installed.

Invariant: the functions below never create a timer, a post or a lane of the program.
"""

from __future__ import annotations

from asyncio import BaseEventLoop, Task
from collections.abc import Callable
from contextvars import Context
from typing import Any

__all__ = ["call_at", "create_task", "is_standard_loop", "post"]

_call_at = BaseEventLoop.call_at
_post = BaseEventLoop.call_soon_threadsafe


def is_standard_loop(loop: Any) -> bool:
    """Is ``loop`` one whose methods we wrap?"""
    return isinstance(loop, BaseEventLoop)


def call_at(
    loop: Any, when: float, callback: Callable[..., Any], *args: Any, context: Context
) -> Any:
    """``loop.call_at``: a timer by the clock."""
    if is_standard_loop(loop):
        return _call_at(loop, when, callback, *args, context=context)
    return loop.call_at(when, callback, *args, context=context)


def create_task(loop: Any, coro: Any, *, name: str, context: Context) -> Task[Any]:
    """A task in no lane, made past any task factory: a replay does not make it."""
    return Task(coro, loop=loop, name=name, context=context)


def post(loop: Any, callback: Callable[..., Any], *args: Any, context: Context) -> None:
    """``loop.call_soon_threadsafe``. A loop that has been closed has nothing to run."""
    if loop.is_closed():
        return
    if is_standard_loop(loop):
        _post(loop, callback, *args, context=context)
    else:
        loop.call_soon_threadsafe(callback, *args, context=context)
