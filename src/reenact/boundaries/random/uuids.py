"""Identifiers of ``uuid``, and of ``fastuuid`` (litellm) and ``uuid_utils`` (langchain).

The latter two are written in Rust and call the operating system directly. Each of their identifiers
is a draw, stored as text. ``uuid_utils.compat`` draws numbers and creates the usual ``UUID`` from
them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any, Final

from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.boundaries.random.recorded_values import apart, text
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = [
    "compiled_uuid_patches",
    "uuid_patches",
]

_SAFE = {"safe": uuid.SafeUUID.safe, "unsafe": uuid.SafeUUID.unsafe}
"""Of an identifier with the time in it: was it made so that no other process could make it?"""


def uuid_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``uuid``."""
    return [Rebinding(module, {f"uuid{version}": _identifier(version) for version in (1, 4, 6, 7)})]


def _identifier(version: int) -> Callable[[Any], Any]:
    name = f"rng uuid.uuid{version}"

    def make(original: Any) -> Any:
        @wraps(original)
        def identifier(*args: Any, **kwargs: Any) -> uuid.UUID:
            if current() is None:
                made: uuid.UUID = original(*args, **kwargs)
                return made

            def live() -> str:
                return _written(apart(lambda: original(*args, **kwargs)))

            found, instead = text(name, live, 1)
            return _read(found) if found else uuid.UUID(bytes=instead, version=version)

        return identifier

    return make


def _written(made: uuid.UUID) -> str:
    if made.is_safe is uuid.SafeUUID.unknown:
        return str(made)
    return f"{made} {made.is_safe.name}"


def _read(found: str) -> uuid.UUID:
    number, _, safe = found.partition(" ")
    return uuid.UUID(number, is_safe=_SAFE.get(safe, uuid.SafeUUID.unknown))


_DRAWING: Final = re.compile(
    r"_?uuid_?v?(?P<version>[1467])(?:mc|(?P<number>_int)|(?P<bulk>_.*bulk))?"
)

_Make = Callable[[str], Any]


def compiled_uuid_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of ``module``, one of the two compiled libraries."""
    found = {name: match for name in vars(module) if (match := _DRAWING.fullmatch(name))}
    return [Rebinding(module, {name: _drawn(module, match) for name, match in found.items()})]


def _drawn(module: ModuleType, match: re.Match[str]) -> Callable[[Any], Any]:
    """Return the factory of the replacement of one function."""
    name, version = f"rng {module.__name__}.{match[0]}", int(match["version"])
    if match["bulk"]:
        make: _Make = str if "strings" in match[0] else module.UUID
        return lambda original: like_builtin(_several(name, version, make, original), original)
    make = _number if match["number"] else module.UUID
    return lambda original: like_builtin(_single(name, version, make, original), original)


def _single(name: str, version: int, make: _Make, original: Any) -> Any:
    def identifier(_: Any, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(*args, **kwargs)
        return make(_one(name, version, lambda: original(*args, **kwargs)))

    return identifier


def _several(name: str, version: int, make: _Make, original: Any) -> Any:
    def identifiers(_: Any, count: int) -> Any:
        if current() is None or type(count) is not int:
            return original(count)  # raises the error for an invalid count
        made = []
        for _ in range(count):  # not in a comprehension, which is a frame before Python 3.12
            made.append(make(_one(name, version, lambda: original(1)[0])))
        return made

    return identifiers


def _one(name: str, version: int, live: Callable[[], Any]) -> str:
    """Return the text of an identifier, drawn for the caller of the caller."""

    def written() -> str:
        made = live()
        return str(uuid.UUID(int=made)) if isinstance(made, int) else str(made)

    found, instead = text(name, written, 2)
    return found or str(uuid.UUID(bytes=instead, version=version))


def _number(written: str) -> int:
    return uuid.UUID(written).int
