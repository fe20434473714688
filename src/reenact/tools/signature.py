"""Signature of a callable: its kind, its arguments and their types, and a JSON Schema for them."""

from __future__ import annotations

import inspect
import re
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
from pathlib import PurePath
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec

from reenact.errors import ValueRefused
from reenact.format.canonical import canonical
from reenact.format.event import Data
from reenact.tools.values import Kind, Unreadable, is_model, to_plain

__all__ = [
    "CallKind",
    "Form",
    "parameters_schema",
    "summary",
]

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
    """Return the signature of ``function``.

    ``hidden`` arguments are not part of a call: they are not recorded, not compared and not offered
    to a model. The first argument is hidden if it is ``self``.
    """

    def __init__(self, function: Callable[..., Any], hidden: tuple[str, ...] = ()) -> None:
        self._function = function
        self.signature: Signature = inspect.signature(function)
        first = next(iter(self.signature.parameters), "")
        self.hidden = frozenset((*hidden, *((first,) if first in _RECEIVERS else ())))
        self.kind = _kind_of(function)

    @cached_property
    def hints(self) -> dict[str, Any]:
        """Readable annotations by name."""
        code = _code_of(self._function)
        try:
            return get_type_hints(code, include_extras=True)
        except Exception:  # noqa: BLE001 - a name that only type checkers know, or worse
            said = getattr(code, "__annotations__", {})
            return {name: one for name, one in said.items() if not isinstance(one, str)}

    @cached_property
    def result(self) -> Kind:
        """Annotation of the return value; for a generator, of the value at its end."""
        said = self.hints.get("return", Any)
        if self.kind not in ("generator", "async_generator"):
            return Kind(said)
        args = get_args(said)
        return Kind(args[2] if get_origin(said) is Generator and len(args) == 3 else Any)

    @cached_property
    def item(self) -> Kind:
        """Annotation of the yielded values of a generator."""
        said = self.hints.get("return", Any)
        args = get_args(said)
        return Kind(args[0] if get_origin(said) in _STREAMS and args else Any)

    @property
    def description(self) -> str:
        """Return the docstring without its part about arguments."""
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
        """Return the arguments of a call by name, as plain data.

        Defaults count as passed if they are plain data. Raises :class:`TypeError` as the function
        itself would, and :class:`ValueRefused`.
        """
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
        """Convert ``args``, plain data by name, to positional and named arguments.

        Raises :class:`TypeError` for unknown names, and :class:`ValueError` for values that do not
        match the annotations.
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
                f"unknown argument {min(left)!r}; expected {', '.join(known) or 'none'}"
            )
        return positions, names

    def _read(self, parameter: Parameter, data: Any, name: str) -> Any:
        kind = Kind(self.hints.get(parameter.name, Any))
        try:
            return kind.read(data)
        except (TypeError, Unreadable):  # an annotation that is not supported for reading
            return data
        except ValueError as error:
            raise ValueError(f"the argument {name!r} does not fit: {error}") from error


def _code_of(function: Any) -> Any:
    """Return the object that has the annotations and the docstring."""
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


_REF = "#/$defs/{name}"
_SECTION = re.compile(
    r"^(Args|Arguments|Parameters|Returns|Return|Yields|Raises|Example|Examples):$"
)
_FIELD = re.compile(r"^:(\w+)[^:]*:")
_NAMED = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SPHINX = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")


def parameters_schema(
    parameters: Iterable[Parameter], hints: Mapping[str, Any], docstring: str
) -> Data:
    """Return an object schema with one property per parameter, and ``$defs`` for the types that
    annotations refer to."""
    told = _told(docstring)
    properties: Data = {}
    required: list[str] = []
    defs: Data = {}
    rest: Any = False
    for one in parameters:
        hint = hints.get(one.name, Any)
        schema = _described(_schema(hint, defs), hint, told.get(one.name, ""))
        if one.kind is Parameter.VAR_KEYWORD:
            rest = schema or True
        elif one.kind is Parameter.VAR_POSITIONAL:
            properties[one.name] = {"type": "array", "items": schema}
        else:
            properties[one.name] = schema | _default(one)
            required += [one.name] if one.default is Parameter.empty else []
    found: Data = {"type": "object", "properties": properties, "required": required}
    found["additionalProperties"] = rest
    return found | ({"$defs": defs} if defs else {})


def _schema(hint: Any, defs: Data) -> Data:
    try:
        (schema,), named = msgspec.json.schema_components(
            [hint], schema_hook=_other, ref_template=_REF
        )
    except TypeError:  # a union, say, that msgspec cannot tell apart
        return {}
    for name, one in named.items():
        defs[name] = _lifted(one, defs)
    found: Data = _lifted(schema, defs)
    return found


def _other(kind: Any) -> Data:
    """Return the schema of a class that msgspec does not support."""
    if is_model(kind):
        found: Data = kind.model_json_schema(ref_template="#/$defs/{model}")
        return found
    return {"type": "string"} if issubclass(kind, PurePath) else {}


def _lifted(schema: Any, defs: Data) -> Any:
    """Return ``schema`` with its nested ``$defs`` moved to ``defs``."""
    if isinstance(schema, list):
        return [_lifted(one, defs) for one in schema]
    if not isinstance(schema, dict):
        return schema
    for name, one in schema.get("$defs", {}).items():
        defs[name] = _lifted(one, defs)
    return {name: _lifted(one, defs) for name, one in schema.items() if name != "$defs"}


def _default(parameter: Parameter) -> Data:
    if parameter.default is Parameter.empty or parameter.default is None:
        return {}
    try:
        found = to_plain(parameter.default)
        canonical(found)
    except ValueRefused:
        return {}
    return {"default": found}


def _described(schema: Data, hint: Any, told: str) -> Data:
    """Return ``schema`` with the description from the annotation or the docstring."""
    said = ""
    if get_origin(hint) is Annotated:
        words = [getattr(one, "description", one) for one in get_args(hint)[1:]]
        said = next((word for word in words if isinstance(word, str)), "")
    text = said or schema.get("description") or told
    return {**schema, "description": text} if text and "$ref" not in schema else schema


# Docstrings


def summary(docstring: str) -> str:
    """Return the part of a docstring before its sections."""
    kept: list[str] = []
    for line in docstring.splitlines():
        if _SECTION.match(line) or _FIELD.match(line):
            break
        kept.append(line.rstrip())
    return "\n".join(kept).strip()


def _told(docstring: str) -> dict[str, str]:
    """Return the descriptions of the arguments: ``Args:`` with indented names, or ``:param x:``."""
    found: dict[str, str] = {}
    name, depth, inside = "", 0, False
    for line in docstring.splitlines():
        if (sphinx := _SPHINX.match(line)) is not None:
            name, depth, inside = sphinx[1], 0, True
            found[name] = sphinx[2]
        elif _SECTION.match(line):
            inside, name, depth = line.startswith(("Args", "Arguments", "Parameters")), "", 0
        elif inside and (match := _NAMED.match(line)) and len(match[1]) <= (depth or 99):
            name, depth = match[2], len(match[1])
            found[name] = match[3]
        elif inside and name and line.startswith(" ") and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
        elif line and not line.startswith(" "):
            inside = False
    return found
