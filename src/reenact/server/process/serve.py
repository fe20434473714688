"""``reenact serve``: the server as a process, until it is asked to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
import uvicorn

from reenact.errors import UsageError
from reenact.server.app import make_app
from reenact.server.auth.oidc.provider import OidcSettings
from reenact.server.http.connections import connections, most_connections
from reenact.server.process.logs import LogForm, log_to_stderr
from reenact.server.process.startup import OpenServer, World, open_server
from reenact.server.runtime import Limits
from reenact.server.telemetry.targets import ExportTarget
from reenact.store.payload_decoder import limits_from

if TYPE_CHECKING:
    from types import FrameType

    from starlette.types import ASGIApp

__all__ = ["ServeOptions", "Uvicorn", "bind", "check_public_url", "near_url_of", "serve", "url_of"]

_GRACE: Final = 10
"""Seconds that requests have to end when the server stops."""
_BACKLOG: Final = 512
_ADDRESS: Final = re.compile(r"https?://([A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\])(:[0-9]+)?/?")
_LINES: Final = 64 << 10
"""Bytes of a request's head."""
_UNREAD: Final = 60
"""Seconds that what was sent may be unread, or unheard, until the system gives the connection up."""


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``reenact serve``.

    Without TLS only the local machine can connect, unless ``insecure`` is set. Remote clients use a
    proxy with TLS; ``forwarded`` trusts the forwarding headers of a proxy on this machine. ``name``
    is the name of the deployment. ``database`` and ``blobs`` are as for :func:`open_server`,
    ``exports`` and ``oidc`` as in :class:`World`. ``public_url`` is the address for links; the
    default is the listening address.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    data: Path = Path("reenact-server")
    database: str = ""
    blobs: str = ""
    name: str = ""
    insecure: bool = False
    forwarded: bool = False
    log: LogForm = "text"
    exports: dict[str, ExportTarget] = {}
    oidc: OidcSettings | None = None
    public_url: str = ""


class Uvicorn(uvicorn.Server):
    """Uvicorn server that reports readiness, and sets the stop event before it waits for streams.

    The first signal stops it gracefully, the second one immediately.
    """

    def __init__(
        self,
        app: ASGIApp,
        stopping: asyncio.Event,
        *,
        ready: Callable[[], None] = lambda: None,
        forwarded: bool = False,
        protocol: type[asyncio.Protocol] | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol or connections(0),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=forwarded,
                forwarded_allow_ips="127.0.0.1,::1",
                h11_max_incomplete_event_size=_LINES,
                timeout_graceful_shutdown=_GRACE,
            )
        )
        self._stopping = stopping
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping.set()
        await super().shutdown(sockets)


def serve(options: ServeOptions) -> int:
    """Serve until SIGINT or SIGTERM; gives the exit code. Raises :class:`UsageError`."""
    _check_host(options)
    _check_links(options)
    log_to_stderr(options.log)
    return asyncio.run(_serve(options))


async def _serve(options: ServeOptions) -> int:
    async with open_server(
        options.data,
        options.name,
        World(
            limits=_limits(),
            exports=options.exports,
            oidc=options.oidc,
            public_url=check_public_url(options.public_url),
        ),
        database=options.database,
        blobs=options.blobs,
    ) as opened:
        with bind(options.host, options.port) as sock:
            running = Uvicorn(
                make_app(opened.server),
                opened.server.stopping,
                ready=lambda: _welcome(
                    opened, url_of(sock), options.public_url or near_url_of(sock)
                ),
                forwarded=options.forwarded,
                protocol=connections(most_connections()),
            )
            await running.serve([sock])
            return 0 if running.started else 1


def _limits() -> Limits:
    """Return the default limits, changed by environment variables."""
    limits = Limits()
    return msgspec.structs.replace(limits, read=limits_from(defaults=limits.read))


def _check_host(options: ServeOptions) -> None:
    if options.insecure or _is_loopback(options.host):
        return
    raise UsageError(
        f"{options.host} can be reached from other machines, and this is plain HTTP",
        hint="serve on 127.0.0.1 behind a proxy with TLS and say --forwarded, or say --insecure",
    )


def _check_links(options: ServeOptions) -> None:
    """A provider sends browsers back to one address, and no request can say which one that is."""
    check_public_url(options.public_url)
    if options.oidc is not None and options.forwarded and not options.public_url:
        raise UsageError(
            "single sign-on behind a proxy needs the address under which browsers reach the server",
            hint="add --public-url https://reenact.example.com",
        )


def check_public_url(text: str) -> str:
    """Return ``text`` without a slash at its end. Raises :class:`UsageError` for an invalid address."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        valid = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.scheme not in ("http", "https") or not _ADDRESS.fullmatch(text):
        raise UsageError(
            f"--public-url is {text[:200]!r}, expected the address of the server without a path",
            hint="use an address such as https://reenact.example.com",
        )
    return text.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(host: str, port: int, unread: float = _UNREAD) -> socket.socket:
    """Return a listening socket.

    Raises :class:`UsageError`. Port 0 selects a free port. A client that reads nothing for
    ``unread`` seconds is disconnected where the system supports it.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        family, kind, protocol, _, address = found[0]
        # With an explicit TCP protocol asyncio sends small responses immediately.
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by accepted sockets
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(unread * 1000))
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise _cannot_listen(host, port, error) from None
    return sock


def _cannot_listen(host: str, port: int, error: OSError) -> UsageError:
    return UsageError(
        f"cannot listen on {host}:{port}: {error.strerror}",
        hint="the port is possibly in use; choose a different port with --port",
    )


def url_of(sock: socket.socket) -> str:
    """Return the listening address of ``sock``."""
    host, port = sock.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}"


def near_url_of(sock: socket.socket) -> str:
    """Return the address of ``sock`` from this machine.

    Browsers and ``reenact login`` cannot use a wildcard address.
    """
    host, port = sock.getsockname()[:2]
    near = _NEAR.get(host)
    return f"http://{near}:{port}" if near else url_of(sock)


_NEAR: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def _welcome(opened: OpenServer, url: str, near: str) -> None:
    print(f"reenact serves {opened.server.deployment} at {url}", file=sys.stderr)
    if opened.setup_token:
        print(
            f"no account exists yet; create the first account with this link:\n"
            f"  {near}/setup?token={opened.setup_token}\n"
            f"or: reenact login '{near}/setup?token={opened.setup_token}'",
            file=sys.stderr,
        )
    sys.stderr.flush()
