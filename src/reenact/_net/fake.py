"""Fake network for tests of code that uses the HTTP client."""

from __future__ import annotations

import io
from typing import Any

__all__ = ["FakeNetwork", "FakeSocket", "FakeTls"]


class _Reader(io.BytesIO):
    """Stays open when a response closes it, because the next response continues in it."""

    def close(self) -> None:
        pass


class FakeSocket:
    """Socket that has received ``received`` and collects sent bytes in ``sent``."""

    def __init__(self, received: bytes) -> None:
        self.sent = bytearray()
        self.closed = False
        self._reader = _Reader(received)

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def makefile(self, mode: str, *args: Any, **kwargs: Any) -> _Reader:
        return self._reader

    def close(self) -> None:
        self.closed = True

    def fileno(self) -> int:
        return -1

    def settimeout(self, seconds: float | None) -> None:
        pass

    def setsockopt(self, *args: Any) -> None:
        pass

    def shutdown(self, how: int) -> None:
        pass


class FakeNetwork:
    """``connect`` argument of :class:`~reenact._net.client.HttpClient`. Each connection receives the
    next of ``received``; :class:`ConnectionRefusedError` is raised when none is left."""

    def __init__(self, *received: bytes) -> None:
        self.sockets: list[FakeSocket] = []
        self.addresses: list[tuple[str, int]] = []
        self._received = list(received)

    def __call__(self, host: str, port: int, seconds: float) -> Any:
        self.addresses.append((host, port))
        if not self._received:
            raise ConnectionRefusedError(111, "Connection refused")
        self.sockets.append(FakeSocket(self._received.pop(0)))
        return self.sockets[-1]


class FakeTls:
    """TLS context that leaves the bytes in plain text and collects the verified host names."""

    def __init__(self) -> None:
        self.hosts: list[str] = []

    def __call__(self) -> Any:
        return self

    def wrap_socket(self, sock: Any, server_hostname: str) -> Any:
        self.hosts.append(server_hostname)
        return sock

    def __getattr__(self, name: str) -> Any:
        return None
