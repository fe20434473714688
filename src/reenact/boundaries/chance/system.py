"""The operating system's generator: ``os.urandom`` and ``os.getrandom``.

``SystemRandom`` and all of ``secrets`` draw from it, by a name that ``random`` has for it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from reenact.boundaries.chance.drawing import octets
from reenact.boundaries.rebinding import Rebinding, like_builtin
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = ["seams", "urandom_like"]


def seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``os``."""
    return [Rebinding(module, {"urandom": urandom_like, "getrandom": _getrandom})]


def urandom_like(original: Any) -> Any:
    """What stands in the place of ``os.urandom``."""

    def urandom(_: Any, size: int, /) -> bytes:
        if current() is None or type(size) is not int or size < 0:
            found: bytes = original(size)  # which may say what is wrong
            return found
        return octets(f"rng os.urandom({size})", size, lambda: original(size), 1)

    return like_builtin(urandom, original)


def _getrandom(original: Any) -> Any:
    def getrandom(_: Any, size: int, flags: int = 0) -> bytes:
        if current() is None or type(size) is not int or size < 0:
            found: bytes = original(size, flags)
            return found
        return octets(f"rng os.getrandom({size})", size, lambda: original(size, flags), 1)

    return like_builtin(getrandom, original)
