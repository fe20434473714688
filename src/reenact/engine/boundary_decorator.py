"""``@reenact.boundary``: decorator that makes a function of the program a boundary.

Works for functions, coroutines, generators and asynchronous generators. Results, yielded values
and exceptions are recorded, and served in a replay.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reenact.engine.execution.streams import stream_async, stream_sync
from reenact.engine.session.current import current
from reenact.engine.session.explicit_api import make_explicit_call
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session.session import Session

__all__ = ["boundary"]

F = TypeVar("F", bound=Callable[..., Any])


@overload
def boundary(function: F) -> F: ...
@overload
def boundary(
    *, capability: str = ..., operation: str | None = ..., source: str | None = ...
) -> Callable[[F], F]: ...
def boundary(
    function: Any = None,
    *,
    capability: str = "net.fetch",
    operation: str | None = None,
    source: str | None = None,
) -> Any:
    """Record the results, yielded values and errors of a function, and re-enact them in a replay.

    For functions, coroutine functions and generators of both kinds. Arguments and results are JSON
    values (and bytes). A call is compared by its arguments, by name. Calls that the function makes
    are ignored. Policies allow or deny the ``capability``. ``operation`` is by default the
    qualified name of the function. Without a session the function is called unchanged.
    """
    if function is None:
        return lambda real: _wrapped(real, capability, operation, source)
    return _wrapped(function, capability, operation, source)


def _wrapped(
    function: Callable[..., Any], capability: str, operation: str | None, source: str | None
) -> Callable[..., Any]:
    maker = _Maker(function, operation or function.__qualname__, capability, source)
    if inspect.isasyncgenfunction(function):
        return _wrap_async_generator(function, maker)
    if inspect.iscoroutinefunction(function):
        return _wrap_coroutine(function, maker)
    if inspect.isgeneratorfunction(function):
        return _wrap_generator(function, maker)
    return _wrap_function(function, maker)


class _Maker:
    """Makes the call that stands for calling the function with these arguments."""

    def __init__(
        self, function: Callable[..., Any], operation: str, capability: str, source: str | None
    ) -> None:
        self.signature = inspect.signature(function)
        self._operation = operation
        self._capability = capability
        self._source = source or ("network" if capability.startswith("net.") else None)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], streams: bool = False) -> Any:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        request: Data = dict(bound.arguments)
        return make_explicit_call(
            self._operation, request, self._capability, self._source, streams=streams
        )

    def call(
        self,
        session: Session,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        streams: bool = False,
    ) -> Any:
        """Return the call, and the arguments for the function if it is called."""
        call = self(args, kwargs, streams)
        if session.fork is None:
            return call, (args, kwargs)
        return session.fork.override_arguments(call, self.signature, args, kwargs)


def _wrap_function(function: Callable[..., Any], make: _Maker) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return function(*args, **kwargs)
        call, (args, kwargs) = make.call(session, args, kwargs)
        return session.gateway.call(call, lambda: function(*args, **kwargs))

    return wrapper


def _wrap_coroutine(function: Callable[..., Any], make: _Maker) -> Callable[..., Any]:
    @wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return await function(*args, **kwargs)
        call, (args, kwargs) = make.call(session, args, kwargs)
        return await session.gateway.acall(call, lambda: function(*args, **kwargs))

    return wrapper


def _wrap_generator(function: Callable[..., Any], make: _Maker) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return function(*args, **kwargs)
        call, (args, kwargs) = make.call(session, args, kwargs, streams=True)
        return stream_sync(session, call, lambda: function(*args, **kwargs))

    return wrapper


def _wrap_async_generator(function: Callable[..., Any], make: _Maker) -> Callable[..., Any]:
    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return function(*args, **kwargs)
        call, (args, kwargs) = make.call(session, args, kwargs, streams=True)
        return stream_async(session, call, lambda: function(*args, **kwargs))

    return wrapper
