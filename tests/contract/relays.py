"""Servers that stand before another one: with TLS, or as a proxy."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["Relay", "certificate", "proxy", "tls_front"]


class Relay:
    """Accepts on a free port of 127.0.0.1. ``connections`` is how often it did."""

    def __init__(self) -> None:
        self.connections = 0
        self.heads: list[str] = []
        """The first lines that a proxy was sent."""
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._spawn(self._accept)

    @property
    def port(self) -> int:
        port: int = self._socket.getsockname()[1]
        return port

    def meet(self, connection: socket.socket) -> None:
        """What is done with a connection. The default hangs up."""

    def pass_on(self, here: socket.socket, there: socket.socket) -> None:
        """Both ways, until both sides are silent."""
        back = self._spawn(self._pump, there, here)
        self._pump(here, there)
        back.join()

    def stop(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        with self._lock:
            left = list(self._open)
        for one in left:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with self._kept(connection), suppress(OSError):
            self.meet(connection)

    @contextmanager
    def _kept(self, connection: socket.socket) -> Iterator[None]:
        """Closed at the end, and shut down before if the relay stops."""
        with self._lock:
            self._open.add(connection)
        try:
            with connection:
                yield
        finally:
            with self._lock:
                self._open.discard(connection)

    @contextmanager
    def upstream(self, port: int) -> Iterator[socket.socket]:
        there = socket.create_connection(("127.0.0.1", port))
        with self._kept(there):
            yield there

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while data := source.recv(65_536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _spawn(self, work: object, *arguments: object) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, name="relay")  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()
        return thread


class _Front(Relay):
    def __init__(self, port: int, pem: Path) -> None:
        self._to = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pem)
        super().__init__()

    def meet(self, connection: socket.socket) -> None:
        plain = self._context.wrap_socket(connection, server_side=True)
        with plain, self.upstream(self._to) as there:
            self.pass_on(plain, there)


class _Proxy(Relay):
    def __init__(self, refusal: str | None) -> None:
        self._refusal = refusal
        super().__init__()

    def meet(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            data = connection.recv(65_536)
            if not data:
                return
            head += data
        line = head.split(b"\r\n")[0].decode()
        self.heads.append(line)
        if self._refusal is not None:
            connection.sendall(f"HTTP/1.1 {self._refusal}\r\nContent-Length: 0\r\n\r\n".encode())
            return
        method, target, _ = line.split()
        tunnel = method == "CONNECT"
        port = urlsplit(f"//{target}" if tunnel else target).port
        assert port is not None
        with self.upstream(port) as there:
            if tunnel:
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                there.sendall(head)
            self.pass_on(connection, there)


@contextmanager
def tls_front(port: int, pem: Path) -> Iterator[Relay]:
    """Takes TLS, and passes on what is in it to ``port``."""
    yield from _stopped(_Front(port, pem))


@contextmanager
def proxy(refusal: str | None = None) -> Iterator[Relay]:
    """Passes on to where it is told, or answers with the status ``refusal``."""
    yield from _stopped(_Proxy(refusal))


def _stopped(relay: Relay) -> Iterator[Relay]:
    try:
        yield relay
    finally:
        relay.stop()


def certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 in one file, which is also who vouches for it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = folder / "loopback.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    pem.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return pem
