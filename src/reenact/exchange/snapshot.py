"""Bounded JSON snapshots of a program's values: arguments, results, properties."""

from __future__ import annotations

import dataclasses
import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Final

import msgspec

__all__ = ["encode_bytes", "is_json", "snapshot"]

_LONGEST_TEXT: Final = 16_384
_MOST_ITEMS: Final = 200
_MOST_VALUES: Final = 5_000
_DEEPEST: Final = 20
_LONGEST_REPR: Final = 500
_LARGEST: Final = 10**30
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def snapshot(value: Any) -> Any:
    """Return a snapshot of ``value`` that consists of JSON values and bytes. Values that are too
    long or too deep become ``{"$clipped": size}``. Never raises."""
    return _Shower().show(value, 0)


def is_json(value: Any) -> bool:
    """Return whether JSON can represent ``value`` without loss."""
    if value is None or type(value) in (str, int, bool):
        return True
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is list:
        return all(map(is_json, value))
    return type(value) is dict and all(
        type(name) is str and is_json(item) for name, item in value.items()
    )


def encode_bytes(value: Any) -> Any:
    """Return ``value`` with ``{"$bytes": base64}`` instead of bytes."""
    if isinstance(value, bytes):
        return {"$bytes": b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: encode_bytes(item) for name, item in value.items()}
    return [encode_bytes(item) for item in value] if isinstance(value, (list, tuple)) else value


class _Shower:
    def __init__(self) -> None:
        self._room = _MOST_VALUES

    def show(self, value: Any, depth: int) -> Any:
        self._room -= 1
        if self._room < 0 or depth > _DEEPEST:
            return {"$clipped": 0}
        kind: type = type(value)  # what most values are comes first, and is looked at once
        if kind is str and len(value) <= _LONGEST_TEXT and value.isascii():
            return value
        if value is None or kind is bool or (kind is int and -_LARGEST < value < _LARGEST):
            return value
        if kind is dict and len(value) <= _MOST_ITEMS:
            named = {str(n): self.show(x, depth + 1) for n, x in value.items()}
            return self._more(named, value)
        if kind is list and len(value) <= _MOST_ITEMS:
            return [self.show(item, depth + 1) for item in value]
        return self._show_unusual(value, depth)

    def _show_unusual(self, value: Any, depth: int) -> Any:
        if isinstance(value, bool):
            return value
        if isinstance(value, (str, bytes)):
            return _text(value) if len(value) <= _LONGEST_TEXT else {"$clipped": len(value)}
        if isinstance(value, Enum):
            return self.show(value.value, depth + 1)
        if isinstance(value, int):
            return int(value) if abs(value) < _LARGEST else {"$clipped": value.bit_length() // 8}
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"$number": repr(value)}
        return self._show_more(value, depth)

    def _show_more(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            pairs = ((str(name), item) for name, item in islice(value.items(), _MOST_ITEMS))
            return self._more({n: self.show(x, depth + 1) for n, x in pairs}, value)
        if isinstance(value, (list, tuple)):
            return self._items(value, depth)
        if isinstance(value, (set, frozenset)):
            return self._items(sorted(value, key=repr), depth)
        fields = _fields_of(value)
        if fields is not None:
            return {name: self.show(item, depth + 1) for name, item in fields.items()}
        return {"$repr": _described(value)}

    def _items(self, value: Any, depth: int) -> list[Any]:
        items = [self.show(item, depth + 1) for item in islice(value, _MOST_ITEMS)]
        left = len(value) - len(items)
        return [*items, {"$clipped": left}] if left else items

    def _more(self, part: dict[str, Any], value: Mapping[Any, Any]) -> dict[str, Any]:
        left = len(value) - len(part)
        return {**part, "$clipped": left} if left > 0 else part


def _text(value: str | bytes) -> Any:
    """Return a text, or its ASCII form if it has lone surrogates."""
    if isinstance(value, bytes):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return {"$repr": ascii(str(value))}
    return str(value)


def _fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a record, whose names decide what is secret, or None."""
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.asdict(value)
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {name: getattr(value, name, None) for name in names}
    if hasattr(type(value), "__pydantic_fields__"):
        return dict(vars(value))
    return None


def _described(value: Any, describe: Callable[[Any], str] = repr) -> str:
    try:
        text = describe(value)
    except Exception:  # noqa: BLE001 - code of the program, which may fail in any way
        text = ""
    if not text or len(text) > _LONGEST_REPR:
        text = f"<{type(value).__module__}.{type(value).__qualname__}>"
    return _ADDRESS.sub("", text)
