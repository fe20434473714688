"""Modules that a test is the first to import: what they do while they are loaded is no part of it.

It would be in the cassette of whichever test comes first, and that depends on which tests run.
"""

from __future__ import annotations

import importlib._bootstrap
from collections.abc import Callable
from functools import wraps
from typing import Any

from reenact.engine.patches.patch import Patch
from reenact.engine.session.context import OUTSIDE, VARIABLE
from reenact.engine.session.current import current

__all__ = ["import_patch"]


def import_patch() -> Patch:
    """Modules are loaded outside of the session."""
    return Patch(importlib._bootstrap, "_load_unlocked", _load)


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def load(spec: Any) -> Any:
        if current() is None:
            return original(spec)
        token = VARIABLE.set(OUTSIDE)
        try:
            return original(spec)
        finally:
            VARIABLE.reset(token)

    return load
