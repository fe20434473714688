"""HTTP to the server: one connection per conversation, kept open, over the standard library.

It is no part of the program: it runs outside any session, is recorded nowhere and refused by no
replay. Time-outs on everything, limits on what is read, no redirects, no proxies, TLS verified. The
key is in one header and nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any

import msgspec

from reenact._system import monotonic
from reenact._version import __version__
from reenact.exchange.client.address import Address, Secret
from reenact.exchange.client.limits import Limits
from reenact.hermetic.call_origin import own_connection

__all__ = ["Answer", "Channel", "Streamed", "Transport", "Unreachable"]

_CHUNK = 1 << 16
_BROKEN = (OSError, HTTPException, ValueError)
"""What ``http.client`` raises when the other side is gone, or speaks something else."""


class Unreachable(Exception):
    """No answer, or none that can be read. The text says why, in words for people."""


class Answer(msgspec.Struct, frozen=True):
    """What came back. Names of headers are in small letters."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def retry_after(self) -> float | None:
        """Seconds, where the server asks for patience."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class Streamed(msgspec.Struct, frozen=True):
    """An answer that is still coming. ``chunks`` raises :class:`Unreachable` when it breaks off, and
    ends when the server ends it."""

    answer: Answer
    chunks: Iterator[bytes]


class Transport:
    """Makes channels to one server with one key. Shared by threads."""

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
        self._tls = tls

    def channel(self) -> Channel:
        """A conversation of its own, not connected yet."""
        return Channel(self)

    def connection(self) -> HTTPConnection:
        """Not connected. It never connects by itself."""
        address, timeout = self.address, self.limits.connect_seconds
        conn = (
            HTTPSConnection(address.host, address.port, timeout=timeout, context=self._tls())
            if address.scheme == "https"
            else HTTPConnection(address.host, address.port, timeout=timeout)
        )
        conn.auto_open = 0
        conn.set_debuglevel(0)  # a program may have set it for all, and it prints the key
        return conn

    def headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self._key.reveal()}",
            "User-Agent": f"reenact-agent/{__version__}",
            "Accept": "application/json",
            **more,
        }


class Channel:
    """One conversation, used by one thread at a time; any thread may :meth:`abort` it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._conn: HTTPConnection | None = None
        self._lock = threading.Lock()  # covers the next two
        self._sock: socket.socket | None = None  # a connection forgets it before all is read
        self._aborted = False

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        limit: int = 0,
        seconds: float = 0.0,
    ) -> Answer:
        """Ask, and read the whole answer of at most ``limit`` bytes. Raises :class:`Unreachable`.

        Asked again on a new connection where the old one turns out to be closed: whatever an agent
        asks for may be asked twice.
        """
        limits = self._transport.limits
        streamed = self.stream(
            method, path, body=body, headers=headers, seconds=seconds or limits.request_seconds
        )
        most = limit or limits.answer_bytes
        return msgspec.structs.replace(streamed.answer, body=self._whole(streamed.chunks, most))

    def stream(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float,
        silence: float = 0.0,
    ) -> Streamed:
        """Ask, and read the answer as it comes. Each piece may take ``silence`` seconds, or all of
        it together ``seconds``."""
        was_open = self._conn is not None
        ask = (method, path, body, dict(headers or {}), seconds)
        try:
            response = self._ask(*ask)
        except ConnectionError as error:
            self.close()
            if not was_open:
                raise Unreachable(_reason(error)) from None
            response = self._again(*ask)
        except _BROKEN as error:
            self.close()
            raise Unreachable(_reason(error)) from None
        found = {name.lower(): value for name, value in response.getheaders()}
        until = None if silence else monotonic() + seconds
        return Streamed(Answer(response.status, found), self._pieces(response, until, silence))

    def close(self) -> None:
        """Close the connection; the next request makes another."""
        with self._lock:
            conn, self._conn, self._sock = self._conn, None, None
        if conn is not None:
            conn.close()

    def abort(self) -> None:
        """End what is under way here, from another thread, and refuse all that comes after."""
        with self._lock:
            self._aborted = True
            if self._sock is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    self._sock.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """In a forked child, where the lock may be held for ever: the connection is the parent's."""
        if self._sock is not None and self._sock.fileno() >= 0:
            os.close(self._sock.detach())

    def _again(self, *ask: Any) -> HTTPResponse:
        try:
            return self._ask(*ask)
        except _BROKEN as error:
            self.close()
            raise Unreachable(_reason(error)) from None

    def _ask(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], seconds: float
    ) -> HTTPResponse:
        conn = self._connected()
        conn.sock.settimeout(seconds)
        url = f"{self._transport.address.prefix}{path}"
        try:
            conn.request(method, url, body=body, headers=self._transport.headers(headers))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have answered before it closed: that the body is too large, for instance
        return conn.getresponse()

    def _connected(self) -> HTTPConnection:
        conn = self._conn
        if conn is not None and conn.sock is not None:
            self._check_not_aborted()
            return conn
        self.close()
        self._check_not_aborted()
        conn = self._transport.connection()
        try:
            with own_connection():
                conn.connect()
            with self._lock:
                self._conn, self._sock = conn, conn.sock
            self._check_not_aborted()
        except BaseException:
            conn.close()
            raise
        return conn

    def _check_not_aborted(self) -> None:
        with self._lock:
            if self._aborted:
                raise Unreachable("the link is being closed")

    def _pieces(
        self, response: HTTPResponse, until: float | None, silence: float
    ) -> Iterator[bytes]:
        sock = self._sock
        try:
            while True:
                self._allow(sock, silence if until is None else until - monotonic())
                piece = response.read1(_CHUNK)
                if not piece:
                    break
                yield piece
            if response.length:
                raise Unreachable("the answer was cut short")
        except _BROKEN as error:
            self.close()
            raise Unreachable(_reason(error)) from None
        except BaseException:  # also when the reader has had enough: the rest is not read
            self.close()
            raise
        finally:
            response.close()

    @staticmethod
    def _allow(sock: socket.socket | None, seconds: float) -> None:
        if seconds <= 0:
            raise TimeoutError
        if sock is not None and sock.fileno() >= 0:
            sock.settimeout(seconds)

    def _whole(self, chunks: Iterator[bytes], most: int) -> bytes:
        found = bytearray()
        for piece in chunks:
            found += piece
            if len(found) > most:
                self.close()
                raise Unreachable(f"the answer is larger than {most} bytes")
        return bytes(found)


def _reason(error: BaseException) -> str:
    """In words, and without what was sent."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return f"it does not speak HTTP ({type(error).__name__})"
