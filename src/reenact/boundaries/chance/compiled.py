"""Identifiers that are made in Rust: ``fastuuid`` (litellm) and ``uuid_utils`` (langchain).

They ask the operating system themselves, where nobody sees it. Each identifier is a draw, written as
the text that it is; ``uuid_utils.compat`` asks for numbers and makes the usual ``UUID`` of them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from reenact.boundaries.chance.drawing import text
from reenact.boundaries.rebinding import Rebinding, like_builtin
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = ["seams"]

_DRAWING: Final = re.compile(
    r"_?uuid_?v?(?P<version>[1467])(?:mc|(?P<number>_int)|(?P<bulk>_.*bulk))?"
)

_Make = Callable[[str], Any]


def seams(module: ModuleType) -> list[Installable]:
    """The patches of ``module``, which is one of the two."""
    found = {name: match for name in vars(module) if (match := _DRAWING.fullmatch(name))}
    return [Rebinding(module, {name: _drawn(module, match) for name, match in found.items()})]


def _drawn(module: ModuleType, match: re.Match[str]) -> Callable[[Any], Any]:
    """What makes the replacement of one function out of the original."""
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
            return original(count)  # which may say what is wrong
        made = []
        for _ in range(count):  # not in a comprehension, which is a frame before Python 3.12
            made.append(make(_one(name, version, lambda: original(1)[0])))
        return made

    return identifiers


def _one(name: str, version: int, live: Callable[[], Any]) -> str:
    """The text of an identifier that is drawn for whoever called our caller."""

    def written() -> str:
        made = live()
        return str(uuid.UUID(int=made)) if isinstance(made, int) else str(made)

    found, instead = text(name, written, 2)
    return found or str(uuid.UUID(bytes=instead, version=version))


def _number(written: str) -> int:
    return uuid.UUID(written).int
