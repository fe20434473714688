"""Over TLS: who the server is is verified, unless the app says how."""

from __future__ import annotations

import contextlib
import datetime
import gzip
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from reenact._net.client import HttpClient, Proxy
from tests.integration.exchange.client_helpers import (
    CountingRunner,
    a_capture,
    an_exchange,
    linked,
    until_status,
)
from tests.integration.exchange.protocol_server import KEY, ProtocolServer


def certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 that nobody has signed, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def serving(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def trusting(path: Path) -> Callable[[], ssl.SSLContext]:
    return lambda: ssl.create_default_context(cafile=str(path))


def test_everything_goes_over_tls(tmp_path: Path) -> None:
    path, runner = certificate(tmp_path), CountingRunner()
    with (
        ProtocolServer(serving(path)) as server,
        linked(server, tmp_path / "data", runner, tls=trusting(path)) as link,
    ):
        link.offer(an_exchange(), a_capture(link.place()))
        server.until(lambda: server.streams and server.exchanges)
        server.give(server.order(link.status().agent_id, "rp-1"))
        server.until(lambda: len(server.exchanges) == 2)
    assert server.goodbyes == [link.status().agent_id]


def test_a_server_that_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    with ProtocolServer(serving(certificate(tmp_path))) as server:
        with linked(server, tmp_path / "data", timeout=0.5) as link:
            link.offer(an_exchange(), None)
            until_status(link, lambda now: "certificate" in now.error)
        assert server.requests == []
    assert link.status().spooled == 1


class TunnelProxy:
    """HTTP proxy for one CONNECT request; ``request`` is its head."""

    def __init__(self) -> None:
        self.request = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client:
            while not self.request.endswith(b"\r\n\r\n"):
                self.request += client.recv(1)
            host, _, port = self.request.split()[1].decode().rpartition(":")
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=self._copy, args=(server, client))
                back.start()
                self._copy(client, server)
                back.join()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


def test_request_through_a_proxy_verifies_the_server_behind_it(tmp_path: Path) -> None:
    path = certificate(tmp_path)
    proxy = TunnelProxy()
    with ProtocolServer(tls=serving(path)) as server:
        client = HttpClient(
            proxy_for=lambda origin: Proxy("127.0.0.1", proxy.port, "Basic eA=="),
            tls=trusting(path),
        )
        headers = {"Authorization": f"Bearer {KEY}", "Content-Encoding": "gzip"}
        url, nothing = f"{server.url}/api/v1/ingest", gzip.compress(b"")
        response = client.request("POST", url, headers=headers, body=nothing)
    proxy.close()
    assert server.requests == [("POST", "/api/v1/ingest")]
    assert response.status == 200
    assert proxy.request.startswith(b"CONNECT 127.0.0.1:")
    assert b"Proxy-Authorization: Basic eA==" in proxy.request
    assert KEY.encode() not in proxy.request
