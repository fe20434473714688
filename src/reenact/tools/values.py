"""Arguments and results of tools as plain data, and back as the annotated types."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite
from pathlib import PurePath
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, is_typeddict
from uuid import UUID

import msgspec

from reenact.engine.call import Call
from reenact.engine.codecs import PartialResponse, PlainCodec, PlainStreamCodec, copy_value
from reenact.engine.session.current import current
from reenact.errors import ValueRefused
from reenact.format.canonical import MAX_DEPTH, canonical, exact
from reenact.format.event import Data
from reenact.format.json_path import Path, join
from reenact.policy.redaction.redactor import Screen

__all__ = [
    "Answers",
    "Items",
    "Kind",
    "Unreadable",
    "is_model",
    "to_plain",
]

_SCALARS = (str, int, float, bytes, type(None))
_DECAYING = (str, int, float, bytes, bytearray, memoryview)

_WORDS = (datetime, date, time, timedelta, UUID, Decimal)
"""Types with a text form that msgspec can read."""

_PLAIN: Final[tuple[Any, ...]] = (Any, object, str, int, float, bool, None, type(None), bytes)
_PLAIN_CONTAINERS = (list, dict, Mapping)


class Unreadable(Exception):
    """An annotation names a class that cannot be constructed from plain data."""


def is_model(kind: Any) -> bool:
    """Return whether ``kind`` is a pydantic model, or a class with the same interface."""
    return (
        isinstance(kind, type) and hasattr(kind, "model_dump") and hasattr(kind, "model_validate")
    )


def to_plain(value: Any, path: Path = ()) -> Any:
    """Convert ``value`` to plain data. ``path`` is its location. Raises :class:`ValueRefused`.

    Parts that are already plain are shared with ``value``.
    """
    if len(path) > MAX_DEPTH:
        raise _refused(f"nested deeper than {MAX_DEPTH}, or in itself", path[:8])
    if isinstance(value, Enum):
        return to_plain(value.value, path)
    if isinstance(value, _SCALARS):
        return _number(value, path) if isinstance(value, float) else value
    if isinstance(value, Mapping):
        return {_name(key, path): to_plain(item, (*path, str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return sorted((to_plain(item, path) for item in value), key=canonical)
    return _object(value, path)


def _number(value: float, path: Path) -> float:
    if isfinite(value):
        return value
    raise _refused(f"{value} is not a JSON number", path, hint="give it as text, or None")


def _refused(reason: str, path: Path, *, hint: str = "") -> ValueRefused:
    """Return the error with a redacted path, because a key of the path can be a secret."""
    told, session = join(path), current()
    return ValueRefused(reason, told if session is None else session.redacted_text(told), hint=hint)


def _name(key: Any, path: Path) -> str:
    name = key.value if isinstance(key, Enum) else key
    if isinstance(name, str):
        return name
    raise _refused(
        f"a key is a {type(key).__qualname__}, not text", path, hint="convert it with str()"
    )


def _object(value: Any, path: Path) -> Any:
    if isinstance(value, _WORDS):
        return msgspec.to_builtins(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    names = _members(value)
    if names is not None:
        return {key: to_plain(getattr(value, name), (*path, key)) for name, key in names}
    if is_model(type(value)):
        return to_plain(value.model_dump(mode="json", by_alias=True, round_trip=True), path)
    raise _refused(
        f"a {type(value).__qualname__} is not plain data",
        path,
        hint="use JSON values, bytes, dataclasses, pydantic models, enums, dates or paths",
    )


def _members(value: Any) -> list[tuple[str, str]] | None:
    """Return the member names of a dataclass or similar class, with their names as data."""
    kind = type(value)
    if isinstance(value, msgspec.Struct) and not kind.__struct_config__.tag:
        return [(field.name, field.encode_name) for field in msgspec.structs.fields(kind)]
    if is_dataclass(value):
        return [(field.name, field.name) for field in fields(value)]
    if hasattr(kind, "__attrs_attrs__"):
        return [(field.name, field.name) for field in kind.__attrs_attrs__]
    return None


class Kind:
    """Annotation of a value: converts plain data back to the annotated type."""

    def __init__(self, annotation: Any = Any) -> None:
        self.annotation = annotation
        self.is_plain = _is_plain(annotation)
        """Return whether every allowed value is plain data, which is returned unchanged."""

    def plain(self, value: Any, path: Path = ()) -> Any:
        """Convert ``value`` to data from which :meth:`typed` restores it.

        Raises :class:`ValueRefused`, also for a value that would be restored differently.
        """
        found = to_plain(value, path)
        back = found if self.is_plain else self.typed(found)
        unlike = _unlike(value, back, path)
        if unlike is not None:
            where, was, now = unlike
            raise _refused(
                f"a {was} would come back as a {now}",
                where,
                hint="annotate the return type of the tool, or return plain data",
            )
        return found

    def typed(self, data: Any) -> Any:
        """Convert ``data`` to the annotated type.

        Return it unchanged if it does not match the annotation.
        """
        if self.is_plain:
            return data
        try:
            return _convert(data, self.annotation, strict=True)
        except (TypeError, ValueError, Unreadable):
            return data

    def read(self, data: Any) -> Any:
        """Convert data from a model, where ``"3"`` counts as a number if one is expected.

        Raises :class:`ValueError` with the location, and :class:`TypeError` or :class:`Unreadable`
        for unsupported annotations.
        """
        return _convert(data, self.annotation, strict=False)


def _unlike(was: Any, now: Any, path: Path) -> tuple[Path, str, str] | None:
    """Return the first location where two values have different types, with both types."""
    if type(was) is not type(now) and not _decays(was, now):
        return path, type(was).__qualname__, type(now).__qualname__
    if isinstance(now, dict) and isinstance(was, Mapping):
        pairs: Any = ((key, was[key], now.get(_name(key, path))) for key in was)
    elif isinstance(now, list | tuple) and isinstance(was, list | tuple):
        pairs = ((number, *both) for number, both in enumerate(zip(was, now, strict=False)))
    else:
        return None
    looks = (_unlike(then, after, (*path, key)) for key, then, after in pairs)
    return next((look for look in looks if look is not None), None)


def _decays(was: Any, now: Any) -> bool:
    """Return whether ``was`` is allowed to come back as ``now``: for example a list for a tuple, or
    a plain string for a string subclass."""
    if isinstance(was, Enum):
        return False
    if isinstance(was, Mapping):
        return type(now) is dict
    if isinstance(was, list) or type(was) is tuple:
        return type(now) is list
    return isinstance(was, _DECAYING)


def _is_plain(annotation: Any) -> bool:
    """Return whether the annotation allows only plain data."""
    if annotation in _PLAIN or annotation in _PLAIN_CONTAINERS or is_typeddict(annotation):
        return True
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_plain(args[0])
    if origin is Literal:
        return not any(isinstance(value, Enum) for value in args)
    if origin in (Union, UnionType) or origin in _PLAIN_CONTAINERS:
        return all(map(_is_plain, args))
    return isinstance(annotation, str) or annotation is Ellipsis


def _convert(data: Any, annotation: Any, *, strict: bool) -> Any:
    if is_model(annotation):  # reports more details of invalid data than a hook can
        return annotation.model_validate(data)
    _build(annotation)
    return msgspec.convert(data, annotation, builtin_types=(bytes,), dec_hook=_made, strict=strict)


_built: set[Any] = set()
_MOST_BUILT: Final = 4096
_building = threading.Lock()


def _build(annotation: Any) -> None:
    """Build msgspec's information about a class in one thread.

    Another thread that reads it while it is being built would crash the process.
    """
    try:
        if annotation in _built:
            return
        hashable = True
    except TypeError:  # it is annotated with something that has no hash
        hashable = False
    with _building:
        try:
            msgspec.json.Decoder(annotation, dec_hook=_made)
        except (TypeError, NameError):
            return  # reading by the annotation raises the error
        if hashable:
            if len(_built) >= _MOST_BUILT:
                _built.clear()
            _built.add(annotation)


def _in_child() -> None:
    global _building
    _building = threading.Lock()  # the thread that held it is not here


os.register_at_fork(after_in_child=_in_child)


def _made(kind: Any, data: Any) -> Any:
    if is_model(kind):
        return kind.model_validate(data)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return kind(data)
    raise Unreadable(kind)


class Answers(PlainCodec):
    """Codec for the result of a call."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def dump(self, call: Call, result: Any) -> Data:
        return super().dump(call, self._kind.plain(result, ("result",)))

    def load(self, call: Call, data: Data) -> Any:
        return self._kind.typed(super().load(call, data))


class Items(PlainStreamCodec):
    """Codec for the yielded values of a generator and its return value."""

    def __init__(self, item: Kind, returned: Kind) -> None:
        self._item = item
        self._returned = returned

    def admit(self, piece: Any) -> Any:
        return self._item.typed(self._plain(piece))

    def size(self, piece: Any) -> int:
        return len(exact(self._plain(piece)))

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        plain = list(map(self._plain, pieces))
        return super().dump(plain, self._returned.plain(returned, ("returned",)))

    def load(self, response: Any) -> list[Any]:
        return list(map(self._item.typed, super().load(response)))

    def growth(self, screen: Screen) -> PartialResponse:
        return _Growing(super().growth(screen), self._item)

    def _plain(self, piece: Any) -> Any:
        return copy_value(self._item.plain(piece, ("item",)))


class _Growing:
    def __init__(self, growth: PartialResponse, item: Kind) -> None:
        self._growth = growth
        self._item = item

    def add(self, piece: Any) -> Any:
        return self._growth.add(copy_value(self._item.plain(piece, ("item",))))
