"""Requests of the app agent to its server.

They are not part of the program: no session records them and no replay refuses them. The key is in one
header and nowhere else.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping

import msgspec

from reenact._net.client import (
    Connection,
    HttpClient,
    Origin,
    Response,
    StreamedResponse,
    Unreachable,
    open_socket,
)
from reenact._version import __version__
from reenact.exchange.client.address import Address, Secret
from reenact.exchange.client.limits import Limits
from reenact.hermetic.call_origin import own_connection

__all__ = [
    "Channel",
    "Fault",
    "Response",
    "StreamedResponse",
    "Transport",
    "Unreachable",
    "read_fault",
]


class Fault(msgspec.Struct, frozen=True):
    """Error of a server response."""

    code: str = ""
    message: str = ""


class _FaultDocument(msgspec.Struct, frozen=True):
    error: Fault


def read_fault(response: Response) -> Fault:
    """Return the error in the body, or one that states the status."""
    try:
        return msgspec.json.decode(response.body, type=_FaultDocument).error
    except msgspec.MsgspecError:
        return Fault(f"http_{response.status}", f"it answers {response.status}")


def _connect(host: str, port: int, seconds: float) -> socket.socket:
    with own_connection():
        return open_socket(host, port, seconds)


class Transport:
    """Factory of channels to one server with one key. Safe to share between threads."""

    def __init__(
        self,
        address: Address,
        key: Secret,
        limits: Limits,
        *,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self.address = address
        self.limits = limits
        self._key = key
        self._client = HttpClient(connect=_connect, tls=tls, connect_seconds=limits.connect_seconds)

    def channel(self) -> Channel:
        """Return a channel that is not connected yet."""
        address = self.address
        return Channel(
            self, self._client.connection(Origin(address.scheme, address.host, address.port))
        )

    def headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        """Return the headers of a request."""
        return {
            "Authorization": f"Bearer {self._key.reveal()}",
            "User-Agent": f"reenact-agent/{__version__}",
            "Accept": "application/json",
            **(more or {}),
        }


class Channel:
    """Connection to the server for one thread at a time. Any thread can :meth:`abort` it."""

    def __init__(self, transport: Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        self.close = connection.close
        self.abort = connection.abort
        self.abandon = connection.abandon

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        most: int = 0,
        seconds: float = 0.0,
    ) -> Response:
        """Send a request and read a response of at most ``most`` bytes. Raises
        :class:`Unreachable`. A request can be sent twice, which is safe for all requests of an app
        agent."""
        limits = self._transport.limits
        return self._connection.request(
            method,
            f"{self._transport.address.prefix}{path}",
            headers=self._transport.headers(headers),
            body=body,
            most=most or limits.answer_bytes,
            seconds=seconds or limits.request_seconds,
        )

    def stream(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        silence: float = 0.0,
    ) -> StreamedResponse:
        """Send a request and return the response before its body. Raises :class:`Unreachable`."""
        return self._connection.stream(
            method,
            f"{self._transport.address.prefix}{path}",
            headers=self._transport.headers(headers),
            seconds=self._transport.limits.request_seconds,
            silence=silence,
        )
