"""botocore: its calls are urllib3's. Here is only noted whether it reads the body itself."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from reenact.boundaries.urllib3.seams import reading
from reenact.engine.patches.patch import Patch
from reenact.engine.session.current import current

__all__ = ["seams"]


def seams(library: ModuleType) -> list[Patch]:
    """The patches of ``botocore.httpsession``."""
    return [Patch(library.URLLib3Session, "send", _noting)]


def _noting(original: Callable[..., Any]) -> Callable[..., Any]:
    def send(session: Any, request: Any) -> Any:
        if current() is None:
            return original(session, request)
        with reading(whole=not request.stream_output):
            return original(session, request)

    return send
