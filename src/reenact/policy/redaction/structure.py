"""Structure of recorded values: leaves, pairs, arguments, schemas."""

from __future__ import annotations

from typing import Any

from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.names import is_log_probability, normalise
from reenact.policy.redaction.streams import decoded

__all__ = [
    "SCHEMA_VALUES",
    "Leaf",
    "if_changed",
    "is_argument",
    "is_pair",
    "is_piece_of_text",
    "is_schema",
    "leaf_text",
    "like",
    "pair_name",
]

Leaf = str | bytes | int | float

SCHEMA_VALUES = frozenset({"default", "const", "example", "examples"})
"""Keywords of a JSON schema that hold values instead of describing them."""

_SCHEMA_TYPES = frozenset("string integer number boolean object array null".split())
_SCHEMA_KEYS = ("$ref", "anyOf", "oneOf", "allOf")
_FLAG = lazy_pattern(r"--[A-Za-z][A-Za-z0-9_.\-]*\Z")


def is_argument(flag: Any, value: Any) -> bool:
    """Return whether ``value`` is the argument of ``flag``, the item before it: ``["--token",
    "x"]``.
    """
    if isinstance(value, bytes) and isinstance(flag, bytes):
        value, flag = value.decode("latin-1"), flag.decode("latin-1")
    return (
        isinstance(value, str)
        and isinstance(flag, str)
        and _FLAG.match(flag) is not None
        and not value.startswith("-")
    )


def leaf_text(value: Leaf) -> tuple[str, str]:
    """A leaf as text, and its encoding if it was bytes."""
    if isinstance(value, bytes):
        return decoded(value)
    return (value, "") if isinstance(value, str) else (str(value), "")


def like(old: list[Any] | tuple[Any, ...], new: list[Any]) -> Any:
    """``new`` in the type of ``old``, or ``old`` itself when nothing changed."""
    if all(fresh is item for fresh, item in zip(new, old, strict=True)):
        return old
    return tuple(new) if isinstance(old, tuple) else new


def if_changed(old: dict[Any, Any], new: dict[Any, Any]) -> dict[Any, Any]:
    """``new``, or ``old`` itself when nothing changed."""
    return new if any(new[key] is not old[key] for key in old) else old


def is_pair(item: Any) -> bool:
    """Return whether this could be a header: a name and its value."""
    return isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], (str, bytes))


def pair_name(name: str | bytes) -> str:
    """The name of a pair as text."""
    return name if isinstance(name, str) else name.decode("latin-1")


def is_piece_of_text(owner: dict[Any, Any], key: str) -> bool:
    """Return whether this is the ``token`` of a log probability."""
    return normalise(key) == "token" and any(
        isinstance(other, str) and is_log_probability(other) for other in owner
    )


def is_schema(value: Any) -> bool:
    """Return whether this describes a value, like a JSON schema, instead of being one."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return any(isinstance(k, str) and k in _SCHEMA_TYPES for k in kinds) or any(
        key in value for key in _SCHEMA_KEYS
    )
