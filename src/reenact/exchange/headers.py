"""Headers: ordered pairs as they came, looked up whatever their case, edited as an object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from reenact.errors import UsageError
from reenact.exchange.model import Header

__all__ = ["check_headers", "find", "from_object", "to_object"]

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def find(headers: Iterable[Header], name: str) -> str:
    """The first value of ``name``, given in small letters; empty when there is none."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return ""


def to_object(headers: Iterable[Header]) -> dict[str, str | list[str]]:
    """Names in small letters, in the order in which they first came."""
    headers = tuple(headers)
    single: dict[str, str | list[str]] = {name.lower(): value for name, value in headers}
    if len(single) == len(headers):
        return single
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def from_object(edited: dict[str, Any], original: Sequence[Header]) -> tuple[Header, ...]:
    """``edited`` in the order and spelling of ``original``: what has more values than before gets
    them behind its last one, and what is new comes at the end. Raises :class:`UsageError`."""
    values = _lowered(edited)
    last = {name.lower(): index for index, (name, _) in enumerate(original)}
    spelled: list[Header] = []
    for index, (name, _) in enumerate(original):
        rest = values.get(name.lower(), [])
        count = len(rest) if last[name.lower()] == index else min(1, len(rest))
        spelled += ((name, rest.pop(0)) for _ in range(count))
    for name, rest in values.items():
        spelled += ((name, value) for value in rest)
    return tuple(spelled)


def _lowered(edited: dict[str, Any]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in edited.items():
        if name.lower() in values:
            raise UsageError(
                f"/headers has {name[:80]!r} twice, in other letters",
                hint="write names in small letters",
            )
        values[name.lower()] = list(_values(name, value))
    return values


def _values(name: str, value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, str):
            raise UsageError(f"/headers/{name[:80]} is neither a string nor a list of strings")
        yield one


def check_headers(headers: Iterable[Header]) -> None:
    """Raises :class:`UsageError` for a name or value that no header can have."""
    for name, value in headers:
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"{name[:80]!r} is no name of a header")
        if _UNFIT.search(value):
            raise UsageError(f"the header {name[:80]} has a value with control characters")
