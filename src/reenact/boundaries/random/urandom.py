"""Random bytes of the operating system: ``os.urandom`` and ``os.getrandom``.

Every program gets these patches, so this module does not import ``random``.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.boundaries.random.recorded_values import octets
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = ["urandom_like", "urandom_patches"]


def urandom_patches(module: ModuleType) -> list[Installable]:
    """The patches of the module ``os``."""
    return [Rebinding(module, {"urandom": urandom_like, "getrandom": _getrandom})]


def urandom_like(original: Any) -> Any:
    """Return the replacement of ``os.urandom``."""

    def urandom(_: Any, size: int, /) -> bytes:
        if current() is None or type(size) is not int or size < 0:
            found: bytes = original(size)  # raises the error for an invalid size
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
