"""``uuid1`` and ``uuid4``, and where there are such ``uuid6`` and ``uuid7``."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

from reenact.boundaries.chance.drawing import apart, text
from reenact.boundaries.rebinding import Rebinding
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = ["seams"]

_SAFE = {"safe": uuid.SafeUUID.safe, "unsafe": uuid.SafeUUID.unsafe}
"""Of an identifier with the time in it: was it made so that no other process could make it?"""


def seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``uuid``."""
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
