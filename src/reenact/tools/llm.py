"""``reenact.llm``: a decorator for functions that call a model without HTTP.

The stop reason and token usage are read from the result shapes of common clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Any, Final, Protocol, TypeVar, overload

from reenact.engine.call import Call
from reenact.engine.codecs import copy_value
from reenact.engine.execution.streams import open_stream
from reenact.engine.request import FUNCTION_LENS
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import UsageError
from reenact.format.event import Data
from reenact.tools.signature import Form
from reenact.tools.values import Answers, Items

__all__ = [
    "LENS",
    "Read",
    "llm",
    "read_answer",
]

_STOPS: Final = ("stopReason", "stop_reason", "finish_reason", "finishReason", "done_reason")
_USAGES: Final = ("usage", "usageMetadata", "usage_metadata", "tokenUsage", "token_usage")
_INSIDE: Final = ("delta", "message", "response", "response_metadata", "messageStop", "metadata")
_LISTS: Final = ("choices", "candidates", "generations")


def read_answer(answer: Any, /) -> tuple[str | None, Data | None]:
    """Return the stop reason and the usage, or None for missing values.

    A stream is searched from its end.
    """
    parts = list(reversed(answer)) if isinstance(answer, list) else [answer]
    places = [place for part in parts for place in _places(part)]
    stops = (place.get(name) for place in places for name in _STOPS)
    usages = (place.get(name) for place in places for name in _USAGES)
    stop = next((one for one in stops if isinstance(one, str)), None)
    return stop, next((one for one in usages if isinstance(one, dict)), None)


def _places(part: Any) -> Iterator[Data]:
    """Yield the parts of a result that can contain the value."""
    if not isinstance(part, dict):
        return
    yield part
    for name in _LISTS:
        items = part.get(name)
        if isinstance(items, list) and items:
            yield from _places(items[0])
    for name in _INSIDE:
        yield from _places(part.get(name))


F = TypeVar("F", bound=Callable[..., Any])

LENS = FUNCTION_LENS

_TOOLS = ("tools", "functions")


class Read(Protocol):
    """Function that reads the stop reason and usage from a result."""

    def __call__(self, answer: Any, /) -> tuple[str | None, Data | None]:
        """Read ``answer``, which is plain data. A stream is the list of its pieces."""


@overload
def llm(function: F, *, provider: str = ..., model: str = ..., read: Read = ...) -> F: ...
@overload
def llm(*, provider: str = ..., model: str = ..., read: Read = ...) -> Callable[[F], F]: ...
def llm(
    function: Any = None,
    *,
    provider: str = "custom",
    model: str = "",
    read: Read = read_answer,
) -> Any:
    """Record the result of the function as a model response, and serve it in a replay.

    Works for functions, coroutine functions and generators of both kinds. A call is compared by
    ``provider``, ``model`` and its arguments, so a different model is a divergence. By default
    ``model`` is the argument of that name or the name of the function, and the argument ``tools``
    contains the offered tools. Both are also found as fields of an argument, such as a
    ``ModelRequest``. ``read`` returns the stop reason and usage of a result; common result shapes
    do not need it. Calls that the function makes are not recorded. Without a session the function
    is called directly.
    """
    if function is None:
        return lambda real: _wrapped(real, provider, model, read)
    return _wrapped(function, provider, model, read)


def _wrapped(function: Any, provider: str, model: str, read: Read) -> Any:
    if not callable(function):
        raise UsageError(
            f"a {type(function).__qualname__} cannot be used as a model: it is not callable",
            hint="@reenact.llm on a function, or reenact.llm(callable, provider=…)",
        )
    asking = _Asking(function, provider, model, read)
    wrapper = _WRAPPERS[asking.form.kind](asking)
    wrapper.__signature__ = asking.form.signature
    return update_wrapper(wrapper, function)


class _Asking:
    """One wrapped function."""

    def __init__(self, function: Any, provider: str, model: str, read: Read) -> None:
        self.function = function
        self.form = Form(function)
        self.answers = Answers(self.form.result)
        self.items = Items(self.form.item, self.form.result)
        self._provider = provider
        self._model = model
        self._read = read

    def session(self) -> Session | None:
        """Return the current session, or None if calls are not recorded."""
        session = current()
        return None if session is None or session.mode == "off" else session

    def call(self, session: Session, args: Any, kwargs: Any) -> Call:
        """Return the model call for a call of the function with these arguments."""
        asked: Data = copy_value(self.form.arguments(args, kwargs))
        model = self._model or _model(asked) or self.function.__name__
        extra: Data = {"lens": LENS, "provider": self._provider, "model": model}
        if session.writes or session.fork is not None:
            hashed = session.recorder.value_hash
            tools = _tools(asked)
            extra["inputHash"] = hashed(_without_tools(asked))
            extra |= {} if tools is None else {"toolSchemaHash": hashed(tools)}
        return Call(
            type="llm_request",
            capability="llm.call",
            operation=f"{self._provider}/{model}",
            request={"provider": self._provider, "model": model, "request": asked},
            extra=extra,
            says=self._says,
        )

    def _says(self, response: Any) -> Data:
        streamed = self.form.kind in ("generator", "async_generator")
        try:
            stop, usage = self._read(response["chunks"] if streamed else response)
            return {"stopReason": stop, "usage": copy_value(usage)}
        except Exception as error:  # noqa: BLE001 - the answer is there, and is worth more
            if (session := current()) is not None:
                name = type(error).__qualname__
                session.warn_once(f"how a model's answer ended could not be read: {name}")
            return {}


def _levels(asked: Data) -> Iterator[Data]:
    """Yield the arguments, then the objects among them, because a request object has the tools in a
    field."""
    yield asked
    yield from (item for item in asked.values() if isinstance(item, dict))


def _tools(asked: Data) -> Any:
    """Return the tools that the model is offered, or None."""
    found = (level[name] for level in _levels(asked) for name in _TOOLS if level.get(name))
    return next(found, None)


def _without_tools(asked: Data) -> Data:
    return {
        name: {key: one for key, one in item.items() if key not in _TOOLS}
        if isinstance(item, dict)
        else item
        for name, item in asked.items()
        if name not in _TOOLS
    }


def _model(asked: Data) -> str:
    """Return the name of the called model, or an empty string if no argument contains it."""
    named = (level.get("model") for level in _levels(asked))
    return next((name for name in named if isinstance(name, str) and name), "")


def _function(asking: _Asking) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = asking.session()
        if session is None:
            return asking.function(*args, **kwargs)
        call = asking.call(session, args, kwargs)
        return session.gateway.call(call, lambda: asking.function(*args, **kwargs), asking.answers)

    return wrapper


def _coroutine(asking: _Asking) -> Any:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = asking.session()
        if session is None:
            return await asking.function(*args, **kwargs)
        call = asking.call(session, args, kwargs)
        return await session.gateway.acall(
            call, lambda: asking.function(*args, **kwargs), asking.answers
        )

    return wrapper


def _generator(asking: _Asking) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = asking.session()
        if session is None or session.is_late():
            return asking.function(*args, **kwargs)
        decided = session.decisions.decide(asking.call(session, args, kwargs), blocks=False)
        stream = open_stream(session, *decided, asking.items)
        return stream.pieces(lambda: asking.function(*args, **kwargs))

    return wrapper


def _async_generator(asking: _Asking) -> Any:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        session = asking.session()
        if session is None or session.is_late():
            return asking.function(*args, **kwargs)
        decided = session.decisions.decide(asking.call(session, args, kwargs), blocks=False)
        stream = open_stream(session, *decided, asking.items)
        return stream.pieces_async(lambda: asking.function(*args, **kwargs))

    return wrapper


_WRAPPERS: dict[str, Callable[[_Asking], Any]] = {
    "function": _function,
    "coroutine": _coroutine,
    "generator": _generator,
    "async_generator": _async_generator,
}
