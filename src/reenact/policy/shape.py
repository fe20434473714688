"""What is wrong with a parsed file: everything at once, each with its path and the nearest name.

msgspec alone stops at the first mistake and does not say under which key of a map it sits. This
reads the same types, so that the two cannot drift apart; :func:`read` still lets msgspec build.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import inspect as types

from reenact.format.paths import Path, join
from reenact.policy.nearest import did_you_mean

__all__ = ["Problem", "problems", "read"]

S = TypeVar("S", bound=msgspec.Struct)

_LONGEST_SHOWN = 40


class Problem(msgspec.Struct, frozen=True):
    """One mistake. ``path`` is where it sits in the file, ``$`` being the whole."""

    path: str
    message: str
    hint: str = ""


def read(raw: Any, kind: type[S]) -> S:
    """The value of a file in which :func:`problems` finds nothing."""
    return msgspec.convert(raw, kind)


def problems(raw: Any, kind: type[msgspec.Struct]) -> list[Problem]:
    """Every mistake in ``raw`` against the fields of ``kind``, in the order of the file."""
    return list(_look(raw, types.type_info(kind), ()))


def _look(value: Any, kind: types.Type, path: Path, words: str = "") -> Iterator[Problem]:
    if isinstance(kind, types.Metadata):
        words = (kind.extra or {}).get("expected", words)
        kind = kind.type
    yield from _LOOKS[type(kind)](value, kind, path, words)


def _expected(what: str, value: Any, path: Path) -> Problem:
    """Says what kind of value is there, not which: somebody may have pasted a secret."""
    return Problem(join(path), f"expected {what}, found {_called(value)}")


def _called(value: Any) -> str:
    if isinstance(value, str) and not value:
        return "an empty text"
    return _CALLED.get(type(value), "something else")


_CALLED: dict[type, str] = {
    bool: "true or false",
    dict: "an object",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "another text",
    type(None): "null",
}


def _struct(value: Any, kind: types.StructType, path: Path, _: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _expected("an object", value, path)
        return
    known = {field.encode_name: field for field in kind.fields}
    for name, item in value.items():
        field = known.get(name)
        if field is None:
            hint = did_you_mean(name, known.keys() - value.keys())
            yield Problem(join((*path, name)), "there is no such field", hint)
        else:
            yield from _look(item, field.type, (*path, name))
    for name, field in known.items():
        if field.required and name not in value:
            yield Problem(join(path), f"the field {name} is missing", f"add {name}")


def _map(value: Any, kind: types.DictType, path: Path, _: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _expected("an object", value, path)
        return
    for name, item in value.items():
        yield from _look(name, kind.key_type, (*path, name))
        yield from _look(item, kind.value_type, (*path, name))


def _list(value: Any, kind: types.VarTupleType, path: Path, _: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield _expected("a list", value, path)
        return
    for index, item in enumerate(value):
        yield from _look(item, kind.item_type, (*path, index))


def _choice(value: Any, kind: types.LiteralType, path: Path, _: str) -> Iterator[Problem]:
    options = [str(one) for one in kind.values]
    if not isinstance(value, str):
        yield _expected(f"one of {', '.join(options)}", value, path)
    elif value not in options:
        shown = repr(value[:_LONGEST_SHOWN])
        yield Problem(join(path), f"{shown} is not a choice here", did_you_mean(value, options))


def _union(value: Any, kind: types.UnionType, path: Path, words: str) -> Iterator[Problem]:
    """Only ``something | None`` is in use."""
    (inner,) = (one for one in kind.types if not isinstance(one, types.NoneType))
    if value is not None:
        yield from _look(value, inner, path, words)


def _text(value: Any, kind: types.StrType, path: Path, words: str) -> Iterator[Problem]:
    if (
        not isinstance(value, str)
        or len(value) < (kind.min_length or 0)
        or (kind.max_length is not None and len(value) > kind.max_length)
        or (kind.pattern is not None and re.search(kind.pattern, value) is None)
    ):
        yield _expected(words or "a text", value, path)


def _number(value: Any, kind: types.IntType, path: Path, words: str) -> Iterator[Problem]:
    if (
        type(value) is not int
        or (kind.ge is not None and value < kind.ge)
        or (kind.le is not None and value > kind.le)
    ):
        yield _expected(words or "a whole number", value, path)


def _flag(value: Any, _: types.BoolType, path: Path, words: str) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield _expected("true or false", value, path)


_LOOKS: dict[type[types.Type], Callable[[Any, Any, Path, str], Iterator[Problem]]] = {
    types.BoolType: _flag,
    types.DictType: _map,
    types.IntType: _number,
    types.LiteralType: _choice,
    types.StrType: _text,
    types.StructType: _struct,
    types.UnionType: _union,
    types.VarTupleType: _list,
}
