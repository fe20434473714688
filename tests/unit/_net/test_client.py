"""The HTTP client: proxies, limits, connections that are kept."""

from __future__ import annotations

from base64 import b64encode

import pytest

from reenact._net.client import (
    HttpClient,
    Origin,
    Proxy,
    Response,
    Unreachable,
    environment_proxy,
    no_proxy,
)
from reenact._net.fake import FakeNetwork, FakeTls

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n\r\nhello"
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


def get(network: FakeNetwork, url: str, proxy: Proxy | None = None, most: int = 100) -> Response:
    client = HttpClient(connect=network, proxy_for=lambda origin: proxy, tls=FakeTls())
    return client.request("GET", url, headers={"X-Key": "k"}, most=most)


def test_response_has_status_headers_and_body() -> None:
    network = FakeNetwork(HELLO)
    response = get(network, "http://host.example/a?b=c")
    assert (response.status, response.body, response.headers["x-a"]) == (200, b"hello", "1")
    assert network.addresses == [("host.example", 80)]
    assert network.sockets[0].sent.startswith(b"GET /a?b=c HTTP/1.1\r\nHost: host.example\r\n")
    assert network.sockets[0].closed


def test_redirect_is_returned_and_not_followed() -> None:
    network = FakeNetwork(
        b"HTTP/1.1 302 Found\r\nLocation: http://b.example/\r\nContent-Length: 0\r\n\r\n"
    )
    assert get(network, "http://a.example/").status == 302
    assert len(network.addresses) == 1


def test_plain_request_goes_to_the_proxy_with_its_complete_url() -> None:
    network = FakeNetwork(HELLO)
    get(network, "http://host.example:81/a", Proxy("proxy.example", 3128, "Basic eA=="))
    sent = bytes(network.sockets[0].sent)
    assert network.addresses == [("proxy.example", 3128)]
    assert sent.startswith(b"GET http://host.example:81/a HTTP/1.1\r\nHost: host.example:81\r\n")
    assert b"Proxy-Authorization: Basic eA==\r\n" in sent


def test_https_request_goes_through_a_tunnel_and_hides_its_headers_from_the_proxy() -> None:
    network, tls = FakeNetwork(TUNNEL + HELLO), FakeTls()
    proxy = Proxy("proxy.example", 3128, "Basic eA==")
    client = HttpClient(connect=network, proxy_for=lambda origin: proxy, tls=tls)
    response = client.request("GET", "https://host.example/a", headers={"X-Key": "k"})
    tunnel, _, request = bytes(network.sockets[0].sent).partition(b"\r\n\r\n")
    assert tunnel == (
        b"CONNECT host.example:443 HTTP/1.1\r\nHost: host.example:443\r\n"
        b"Proxy-Authorization: Basic eA=="
    )
    assert request.startswith(b"GET /a HTTP/1.1\r\nHost: host.example\r\n")
    assert b"Proxy-Authorization" not in request
    assert b"X-Key: k" in request
    assert (tls.hosts, response.body) == (["host.example"], b"hello")


def test_refused_tunnel_is_reported_without_credentials() -> None:
    network = FakeNetwork(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
    with pytest.raises(Unreachable, match=r"^the proxy proxy\.example refuses .*: 407$"):
        get(network, "https://host.example/", Proxy("proxy.example", 3128, "Basic eA=="))
    assert network.sockets[0].closed


def test_too_large_response_is_refused() -> None:
    with pytest.raises(Unreachable, match="more than 4 bytes"):
        get(FakeNetwork(HELLO), "http://host.example/", most=4)


def test_truncated_response_is_refused() -> None:
    with pytest.raises(Unreachable):
        get(FakeNetwork(HELLO[:-1]), "http://host.example/")


def test_header_with_a_line_break_is_not_sent() -> None:
    network = FakeNetwork(HELLO)
    client = HttpClient(connect=network, proxy_for=no_proxy)
    with pytest.raises(Unreachable):
        client.request("GET", "http://host.example/", headers={"X": "a\r\nY: b"})
    assert b"Y: b" not in network.sockets[0].sent


def test_connection_is_kept_between_requests() -> None:
    network = FakeNetwork(HELLO + HELLO)
    connection = HttpClient(connect=network, proxy_for=no_proxy).connection(
        Origin("http", "host.example", 80)
    )
    for _ in range(2):
        assert connection.request("GET", "/", most=10, seconds=1).body == b"hello"
    assert len(network.sockets) == 1


def test_aborted_connection_refuses_requests() -> None:
    network = FakeNetwork(HELLO)
    connection = HttpClient(connect=network, proxy_for=no_proxy).connection(
        Origin("http", "host.example", 80)
    )
    connection.abort()
    with pytest.raises(Unreachable):
        connection.request("GET", "/", most=10, seconds=1)
    assert network.addresses == []


SECURE, PLAIN = Origin("https", "a.b.example", 443), Origin("http", "a.b.example", 80)
P = "http://proxy.example:3128"


@pytest.mark.parametrize(
    "origin, environ, expected",
    [
        (SECURE, {}, None),
        (SECURE, {"HTTPS_PROXY": P}, Proxy("proxy.example", 3128)),
        (SECURE, {"https_proxy": P}, Proxy("proxy.example", 3128)),
        (SECURE, {"HTTP_PROXY": P}, None),
        (PLAIN, {"HTTP_PROXY": P}, Proxy("proxy.example", 3128)),
        (PLAIN, {"HTTP_PROXY": P, "REQUEST_METHOD": "GET"}, None),
        (PLAIN, {"http_proxy": P, "REQUEST_METHOD": "GET"}, Proxy("proxy.example", 3128)),
        (SECURE, {"ALL_PROXY": "proxy.example"}, Proxy("proxy.example", 80)),
        (SECURE, {"HTTPS_PROXY": P, "NO_PROXY": "*"}, None),
        (SECURE, {"HTTPS_PROXY": P, "NO_PROXY": "x.example, b.example"}, None),
        (SECURE, {"HTTPS_PROXY": P, "NO_PROXY": ".b.example"}, None),
        (SECURE, {"HTTPS_PROXY": P, "no_proxy": "*.B.example"}, None),
        (SECURE, {"HTTPS_PROXY": P, "NO_PROXY": "a.b.example:443"}, None),
        (SECURE, {"HTTPS_PROXY": P, "NO_PROXY": "a.b.example:80"}, Proxy("proxy.example", 3128)),
        (SECURE, {"HTTPS_PROXY": P, "NO_PROXY": "xb.example,"}, Proxy("proxy.example", 3128)),
        (Origin("https", "10.1.2.3", 443), {"HTTPS_PROXY": P, "NO_PROXY": "10.0.0.0/8"}, None),
        (Origin("https", "fd00::1", 443), {"HTTPS_PROXY": P, "NO_PROXY": "fd00::/8"}, None),
        (Origin("http", "localhost", 80), {"HTTP_PROXY": P}, None),
        (Origin("http", "127.0.0.2", 80), {"HTTP_PROXY": P}, None),
        (Origin("http", "::1", 80), {"HTTP_PROXY": P}, None),
    ],
)
def test_environment_names_the_proxy(
    origin: Origin, environ: dict[str, str], expected: Proxy | None
) -> None:
    assert environment_proxy(origin, environ) == expected


def test_credentials_of_the_proxy_are_decoded() -> None:
    proxy = environment_proxy(SECURE, {"HTTPS_PROXY": "http://ann:p%40ss@proxy.example:1"})
    assert proxy == Proxy("proxy.example", 1, f"Basic {b64encode(b'ann:p@ss').decode()}")


@pytest.mark.parametrize(
    "url", ["socks5://proxy.example", "https://p.example", "http://[::1", "http://"]
)
def test_unsupported_proxy_is_refused_and_not_bypassed(url: str) -> None:
    with pytest.raises(Unreachable, match="the proxy of the environment"):
        environment_proxy(SECURE, {"HTTPS_PROXY": url})
