"""What can be said about a callable without calling it: its kind, its arguments, their types."""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from functools import cached_property, partial
from inspect import Parameter, Signature
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from reenact.errors import ValueRefused
from reenact.format.event import Data
from reenact.tools.schemas import parameters_schema, summary
from reenact.tools.values import Kind, Unreadable, to_plain

__all__ = ["CallKind", "Form"]

CallKind = Literal["function", "coroutine", "generator", "async_generator"]

_RECEIVERS = ("self", "cls")
_STREAMS: Final = (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Generator,
    Iterable,
    Iterator,
)
_SPREAD = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Form:
    """The form of ``function``. ``hidden`` are arguments that are no part of a call: not recorded,
    not compared, and not offered to a model; the first one is hidden if it is ``self``."""

    def __init__(self, function: Callable[..., Any], hidden: tuple[str, ...] = ()) -> None:
        self._function = function
        self.signature: Signature = inspect.signature(function)
        first = next(iter(self.signature.parameters), "")
        self.hidden = frozenset((*hidden, *((first,) if first in _RECEIVERS else ())))
        self.kind = _kind_of(function)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The annotations that can be read, by name."""
        code = _code_of(self._function)
        try:
            return get_type_hints(code, include_extras=True)
        except Exception:  # noqa: BLE001 - a name that only type checkers know, or worse
            said = getattr(code, "__annotations__", {})
            return {name: one for name, one in said.items() if not isinstance(one, str)}

    @cached_property
    def result(self) -> Kind:
        """What it returns; of a generator, when it is at its end."""
        said = self.hints.get("return", Any)
        if self.kind not in ("generator", "async_generator"):
            return Kind(said)
        args = get_args(said)
        return Kind(args[2] if get_origin(said) is Generator and len(args) == 3 else Any)

    @cached_property
    def item(self) -> Kind:
        """What a generator yields."""
        said = self.hints.get("return", Any)
        args = get_args(said)
        return Kind(args[0] if get_origin(said) in _STREAMS and args else Any)

    @property
    def description(self) -> str:
        """What its docstring says about it, without the part on its arguments."""
        return summary(inspect.getdoc(_code_of(self._function)) or "")

    @cached_property
    def parameters(self) -> Data:
        """JSON Schema of its arguments."""
        text = inspect.getdoc(_code_of(self._function)) or ""
        return parameters_schema(self._visible(), self.hints, text)

    def _visible(self) -> list[Parameter]:
        found = self.signature.parameters.values()
        return [one for one in found if one.name not in self.hidden]

    # Arguments

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Data:
        """What the function is called with, by name, as plain data. Defaults count as given, as
        far as they are plain. Raises :class:`TypeError` as the function itself would, and
        :class:`ValueRefused`."""
        bound = self.signature.bind(*args, **kwargs)
        given = {name: item for name, item in bound.arguments.items() if name not in self.hidden}
        found = {name: to_plain(item, ("args", name)) for name, item in given.items()}
        bound.apply_defaults()
        for name in bound.arguments.keys() - found.keys() - self.hidden:
            try:
                found[name] = to_plain(bound.arguments[name])
            except ValueRefused:
                continue  # nobody gave it
        return found

    def bind(self, args: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """``args``, plain data by name, as the function takes them: positions and names.

        Raises :class:`TypeError` for names that it does not have, and :class:`ValueError` for
        values that do not fit the annotations.
        """
        left = dict(args)
        positions: list[Any] = []
        names: dict[str, Any] = {}
        for one in self._visible():
            if one.kind is Parameter.VAR_KEYWORD:
                names |= {name: self._read(one, left.pop(name), name) for name in list(left)}
            elif one.name not in left:
                continue
            elif one.kind is Parameter.VAR_POSITIONAL:
                positions += [self._read(one, item, one.name) for item in left.pop(one.name)]
            elif one.kind is Parameter.POSITIONAL_ONLY:
                positions.append(self._read(one, left.pop(one.name), one.name))
            else:
                names[one.name] = self._read(one, left.pop(one.name), one.name)
        if left:
            known = [one.name for one in self._visible() if one.kind not in _SPREAD]
            raise TypeError(
                f"there is no argument {min(left)!r}; it takes {', '.join(known) or 'none'}"
            )
        return positions, names

    def _read(self, parameter: Parameter, data: Any, name: str) -> Any:
        kind = Kind(self.hints.get(parameter.name, Any))
        try:
            return kind.read(data)
        except (TypeError, Unreadable):  # an annotation that nobody can read by
            return data
        except ValueError as error:
            raise ValueError(f"the argument {name!r} does not fit: {error}") from error


def _code_of(function: Any) -> Any:
    """What has the annotations and the docstring."""
    while isinstance(function, partial):
        function = function.func
    if inspect.isroutine(function) or isinstance(function, type):
        return function
    return type(function).__call__ if not hasattr(function, "__code__") else function


def _kind_of(function: Any) -> CallKind:
    code = _code_of(function)
    if inspect.isasyncgenfunction(code):
        return "async_generator"
    if inspect.iscoroutinefunction(code):
        return "coroutine"
    return "generator" if inspect.isgeneratorfunction(code) else "function"
