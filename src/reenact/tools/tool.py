"""``@reenact.tool``: a callable whose calls are recorded, with the description a model needs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from functools import cached_property, update_wrapper
from types import FunctionType, MethodType
from typing import Any, Final, Generic, Literal, ParamSpec, TypeVar, cast, get_args, overload

import msgspec

from reenact.engine.call import Call
from reenact.engine.codecs import copy_value
from reenact.engine.execution.streams import open_stream
from reenact.engine.session.current import current
from reenact.engine.session.session import Session
from reenact.errors import UsageError
from reenact.format.event import Data
from reenact.format.json_path import parse
from reenact.tools.signature import CallKind, Form
from reenact.tools.values import Answers, Items, Kind, to_plain

__all__ = [
    "Again",
    "Said",
    "Tool",
    "tool",
]

Again = Literal["stub", "re-execute", "pass"]
"""Default treatment of a tool in a replay."""

_SHOWN: Final = 128


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Options of :func:`reenact.tool`. An empty text is not set."""

    name: str = ""
    description: str = ""
    replay: Again = "stub"
    volatile: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    def check(self, name: str) -> None:
        """Raise :class:`UsageError` for options that contradict each other; ``name`` is the tool's."""
        if self.replay not in get_args(Again):
            raise UsageError(
                f"the tool {name[:_SHOWN]} cannot have replay={self.replay!r}",
                hint=f"one of {', '.join(get_args(Again))}",
            )

    def places(self) -> tuple[str, ...]:
        """Return the volatile paths in the completing event: in the result and in the details of a
        failure.

        Raises :class:`UsageError`.
        """
        return tuple(place for one in self.volatile for place in _places(one))


def _places(text: str) -> tuple[str, str]:
    path = text if text.startswith("$") else f"$.{text}"
    parse(path)
    return f"$.result{path[1:]}", f"$.error.state.details{path[1:]}"


P = ParamSpec("P")
R = TypeVar("R")

_MIMED: Final = ("__code__", "__defaults__", "__kwdefaults__")
"""Attributes that make an object look like a function to frameworks that check for coroutine
functions.
"""


class Tool(Generic[P, R]):
    """Callable whose calls are recorded, and served from the recording in a replay.

    Created by :func:`reenact.tool` and called like the wrapped function. Without a session it calls
    that function directly. In a session, arguments and results are passed by value, and the calls
    inside are recorded in a lane of their own.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self,
        function: Callable[P, R],
        said: Said,
        *,
        form: Form | None = None,
        of_class: bool = False,
    ) -> None:
        self.function = function
        self.name = said.name or _name_of(function)
        self._of_class = of_class
        self._form = form or Form(function, said.hidden)
        self._said = said
        said.check(self.name)
        self._volatile = said.places()
        update_wrapper(self, function, updated=())  # do not copy the __dict__ of the function
        self.__signature__ = self._form.signature
        for mimed in _MIMED:
            if hasattr(function, mimed):
                setattr(self, mimed, getattr(function, mimed))

    # Description for models

    @property
    def description(self) -> str:
        """Return the description: the declared one, otherwise the docstring without the part about
        arguments.
        """
        return self._said.description or self._form.description

    @property
    def parameters(self) -> Data:
        """JSON Schema of the arguments."""
        return self._form.parameters

    @property
    def definition(self) -> Data:
        """Definition for a model: ``name``, ``description`` and ``parameters``."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }

    @property
    def kind(self) -> CallKind:
        """Kind of the result: a value, a coroutine, an iterator or an asynchronous iterator."""
        return self._form.kind

    # Calling it

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.kind == "coroutine":
            return self._await_function(args, kwargs)  # type: ignore[return-value]
        session = current()
        if session is None or session.mode == "off":
            return self.function(*args, **kwargs)
        call = self._call(self._form.arguments(args, kwargs), "")
        return cast("R", self._enact(session, call, lambda: self.function(*args, **kwargs)))

    def call(self, args: Mapping[str, Any] | None = None, *, call_id: str = "") -> Any:
        """Call the tool with the arguments of a model: plain data by name, converted according to
        the annotations.

        Returns the result of the function, which is a coroutine for a coroutine function.
        ``call_id`` is the id of the model and is recorded unchanged. Invalid arguments raise
        :class:`TypeError` or :class:`ValueError`, which is recorded as the failure of the tool.
        """
        given: Data = to_plain(args or {}, ("args",))
        if self.kind == "coroutine":
            return self._await_plain(given, call_id)
        session = current()
        if session is None or session.mode == "off":
            return self._run(given)
        return self._enact(session, self._call(given, call_id), lambda: self._run(given))

    async def acall(self, args: Mapping[str, Any] | None = None, *, call_id: str = "") -> Any:
        """Call the tool from a task and return the complete result of any kind of tool.

        A generator results in the list of its yielded values. A plain function runs in a thread, so
        that it does not block the loop.
        """
        if self.kind == "async_generator":
            return [item async for item in self.call(args, call_id=call_id)]
        if self.kind == "coroutine":
            return await self.call(args, call_id=call_id)
        import asyncio  # a program that never gets here need not load it

        return await asyncio.to_thread(self._whole, args, call_id)

    def _whole(self, args: Mapping[str, Any] | None, call_id: str) -> Any:
        found = self.call(args, call_id=call_id)
        return list(found) if self.kind == "generator" else found

    def _run(self, given: Data) -> Any:
        positions, names = self._form.bind(given)
        return self.function(*positions, **names)

    async def _await_function(self, args: Any, kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return await self.function(*args, **kwargs)  # type: ignore[misc]
        call = self._call(self._form.arguments(args, kwargs), "")
        return await self._enact_async(session, call, lambda: self.function(*args, **kwargs))

    async def _await_plain(self, given: Data, call_id: str) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return await self._run(given)

        async def live() -> Any:
            return await self._run(given)

        return await self._enact_async(session, self._call(given, call_id), live)

    # Under a session

    def _call(self, args: Data, call_id: str) -> Call:
        return Call(
            type="tool_call",
            capability="tool.call",
            operation=self.name,
            request={"name": self.name, "args": copy_value(args)},
            nests=True,
            call_id=call_id,
            replay=self._said.replay,
            volatile=self._volatile,
        )

    def _enact(self, session: Session, call: Call, live: Callable[[], Any]) -> Any:
        call, live = self._otherwise(session, call, live)
        if self.kind == "generator":
            return self._stream(session, call, live)
        if self.kind == "async_generator":
            return self._stream_async(session, call, live)
        return session.gateway.call(call, live, self._answers)

    async def _enact_async(self, session: Session, call: Call, live: Callable[[], Any]) -> Any:
        call, live = self._otherwise(session, call, live)
        return await session.gateway.acall(call, live, self._answers)

    def _otherwise(
        self, session: Session, call: Call, live: Callable[[], Any]
    ) -> tuple[Call, Callable[[], Any]]:
        """Return ``call`` and ``live``, with different arguments if a fork changes them."""
        if session.fork is None:
            return call, live
        call, other = session.fork.override_tool_arguments(call)
        return call, live if other is None else lambda: self._run(other)

    def _stream(
        self, session: Session, call: Call, live: Callable[[], Iterator[Any]]
    ) -> Iterator[Any]:
        if session.is_late():
            return live()
        decided = session.decisions.decide(call, blocks=False)
        pieces = open_stream(session, *decided, self._items).pieces(live)
        return pieces if self._form.result.is_plain else _typed(pieces, self._form.result)

    def _stream_async(
        self, session: Session, call: Call, live: Callable[[], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        if session.is_late():
            return live()
        decided = session.decisions.decide(call, blocks=False)
        return open_stream(session, *decided, self._items).pieces_async(live)

    @cached_property
    def _answers(self) -> Answers:
        return Answers(self._form.result)

    @cached_property
    def _items(self) -> Items:
        return Items(self._form.item, self._form.result)

    # As a function of a module, or a method of a class

    def __get__(self, instance: Any, owner: type | None = None) -> Tool[..., R]:
        receiver = owner if self._of_class else instance
        if receiver is None or not isinstance(self.function, FunctionType):
            return self  # like Python: other callables do not become methods
        method = cast("Callable[..., R]", MethodType(self.function, receiver))
        return Tool(method, self._said, form=self._method)

    @cached_property
    def _method(self) -> Form:
        """Return the tool bound to an instance. Its signature is the same for every instance."""
        return Form(MethodType(self.function, object()), self._said.hidden)

    def __reduce__(self) -> Any:
        """Pickle the tool by its name, as a function, because process pools send it to their
        workers."""
        if isinstance(self.function, MethodType):
            return getattr, (self.function.__self__, self.function.__name__)
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


def _typed(pieces: Any, kind: Kind) -> Generator[Any, Any, Any]:
    """Yield ``pieces``, and return the final value converted to its annotation."""
    returned = yield from pieces
    return kind.typed(to_plain(returned))


def _name_of(function: Any) -> str:
    found = getattr(function, "__name__", "") or getattr(
        getattr(function, "func", function), "__name__", ""
    )
    return str(found or type(function).__name__)


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
    """Return a tool that wraps ``function``: a function, coroutine function, generator of either
    kind, method, or any other callable.

    Its calls are recorded as ``tool_call`` and ``tool_result``, and everything inside in a separate
    lane. A replay does not run it (``stub``). With ``replay="re-execute"`` a replay runs it, serves
    its calls from its lane and compares its result. ``pass`` runs it unrecorded, if the policy
    allows that. A rule of the policy takes precedence over these options.

    ``volatile`` are paths in the result that differ in every run (``"tookMs"``, ``"$.a.at"``), also
    in the ``details`` of its exceptions. They are never compared and do not count for the content
    hash. ``hidden`` are arguments that are not part of the call, such as a context or a client.
    ``name`` and ``description`` default to the name and docstring of the function.
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
