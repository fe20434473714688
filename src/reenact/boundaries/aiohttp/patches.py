"""Boundary for aiohttp: each exchange of a client session, and its websockets.

The patched function is the connector's ``connect``, which returns a connection to nowhere. The
classes of these connections derive from aiohttp's own, which can change between versions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any

from reenact.engine.patches.patch import Patch
from reenact.engine.session.current import current
from reenact.errors import UsageError

__all__ = ["patches"]

_INSIDE = (
    "client.ClientSession._ws_connect",
    "client_proto.ResponseHandler.set_response_params",
    "client_reqrep.ClientRequest.write_bytes",
    "connector.BaseConnector.close",
    "connector.BaseConnector.connect",
    "streams.StreamReader._wait",
)
"""Private names of aiohttp that the boundary replaces or uses."""


def patches(library: ModuleType) -> list[Patch]:
    """Return the patches of aiohttp. An unsupported version is refused on use."""
    try:
        _check(library)
        from reenact.boundaries.aiohttp.client import connector_patches
    except ImportError as error:
        return [Patch(library.ClientSession, "_request", partial(_refusing, library, error))]
    return connector_patches(library)


def _check(library: ModuleType) -> None:
    """Check the private names of aiohttp.

    Raises :class:`ImportError` for an unsupported version.
    """
    if not library.__version__.startswith("3."):
        raise ImportError("its connections are made in another way")
    for path in _INSIDE:
        try:
            attrgetter(path)(library)
        except AttributeError:
            raise ImportError(f"it has no {path}") from None


def _refusing(
    library: ModuleType, error: ImportError, original: Callable[..., Any]
) -> Callable[..., Any]:
    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(self, *args, **kwargs)
        raise UsageError(
            f"aiohttp {library.__version__} is built in a way that Reenact does not know: {error}",
            hint="use aiohttp 3.12 or a later 3, or a newer Reenact",
        )

    return request
