"""requests: its calls are urllib3's. Here is only noted whether it reads the body itself."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.boundaries.urllib3.seams import reading
from reenact.engine.patches.patch import Patch
from reenact.engine.session.current import current

__all__ = ["seams"]


def seams(library: ModuleType) -> list[Patch]:
    """The patches of ``requests.adapters``."""
    return [Patch(library.HTTPAdapter, "send", _noting)]


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(adapter: Any, request: Any, stream: bool = False, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return original(adapter, request, stream, *args, **kwargs)
        with reading(whole=not stream):
            return original(adapter, request, stream, *args, **kwargs)

    return send
