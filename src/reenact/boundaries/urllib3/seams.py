"""urllib3, and with it requests and botocore: one attempt of one request on one connection.

The seam is below retries and redirects, which are urllib3's own, recording and replaying, and above
the connection, which a replay does not open. A version that has no such place (1.x) makes its calls
through http.client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import signature
from types import ModuleType
from typing import Any

from reenact.boundaries.http import ask
from reenact.boundaries.urllib3.attempt import Attempt, Library
from reenact.boundaries.urllib3.errors import PoolErrors
from reenact.engine.patches.patch import Patch
from reenact.engine.session.current import current

__all__ = ["reading", "seams"]

_whole: ContextVar[bool] = ContextVar("reenact.urllib3.whole", default=False)


@contextmanager
def reading(*, whole: bool) -> Iterator[None]:
    """Here a library above makes a request. Does it read the body before the program gets the
    response?"""
    token = _whole.set(whole)
    try:
        yield
    finally:
        _whole.reset(token)


def seams(library: ModuleType) -> list[Patch]:
    """The patches of ``urllib3.connectionpool``."""
    if "preload_content" not in signature(library.HTTPConnectionPool._make_request).parameters:
        return []
    parts = Library(library)
    return [
        Patch(library.HTTPConnectionPool, "_make_request", partial(_making, parts)),
        Patch(library.HTTPSConnectionPool, "_prepare_proxy", partial(_postponing, parts)),
        Patch(library, "is_connection_dropped", partial(_keeping, parts)),
    ]


def _making(library: Library, original: Callable[..., Any]) -> Callable[..., Any]:
    def make_request(
        pool: Any,
        conn: Any,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        retries: Any = None,
        **given: Any,
    ) -> Any:
        session = current()
        if session is None or session.mode == "off":
            return original(pool, conn, method, url, body, headers, retries, **given)
        whole = _whole.get() or given.get("preload_content", True)
        attempt = Attempt(
            library, original, pool, conn, method, url, body, headers, retries, given, whole
        )
        errors = PoolErrors(library.errors, pool, conn)
        reply = ask(
            session,
            attempt.request(),
            attempt.live,
            whole=whole,
            errors=errors,
            resend=attempt.resend,
        )
        return attempt.response(reply)

    return make_request


def _postponing(library: Library, original: Callable[..., Any]) -> Callable[..., Any]:
    def prepare_proxy(pool: Any, conn: Any) -> Any:
        """The way through the proxy is made with the request, if that is made."""
        session = current()
        if session is None or session.mode == "off":
            return original(pool, conn)
        library.tunnels.add(conn)
        return None

    return prepare_proxy


def _keeping(library: Library, original: Callable[..., Any]) -> Callable[..., Any]:
    def is_connection_dropped(conn: Any) -> Any:
        """What was never connected was not dropped."""
        if conn.sock is None and conn in library.served:
            return False
        return original(conn)

    return is_connection_dropped
