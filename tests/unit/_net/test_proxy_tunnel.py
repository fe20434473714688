"""The HTTP client through a proxy that makes a tunnel to a TLS server."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
from pathlib import Path

from reenact._net.client import HttpClient, Proxy
from tests.integration.exchange.own_tls import certificate, serving, trusting
from tests.integration.exchange.protocol_server import KEY, ProtocolServer


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
