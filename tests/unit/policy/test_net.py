"""Where a program may connect to."""

from __future__ import annotations

from typing import Any

import pytest

from reenact.errors import PolicyRefused
from reenact.policy.access import address_refusal, keeps_credentials, net_refusal
from reenact.policy.model import NetRules


def _refused(url: str, method: str = "GET", **rules: Any) -> bool:
    return net_refusal(NetRules(**rules), method, url) is not None


def test_without_rules_everything_goes() -> None:
    assert not _refused("https://example.com/")
    assert not _refused("https://127.0.0.1/", "OPTIONS")


@pytest.mark.parametrize(
    "domain, url, allowed",
    [
        ("example.com", "https://example.com/x", True),
        ("example.com", "https://EXAMPLE.com:8443/x", True),
        ("Example.COM", "https://example.com./", True),
        ("example.com", "https://user:pass@example.com/", True),
        ("example.com", "https://api.example.com/", False),
        ("example.com", "https://example.com.evil.org/", False),
        ("example.com", "https://notexample.com/", False),
        ("*.example.com", "https://example.com/", True),
        ("*.example.com", "https://a.b.EXAMPLE.com/", True),
        ("*.example.com", "https://badexample.com/", False),
        ("*.example.com", "https://example.com.evil.org/", False),
        ("bücher.example", "https://xn--bcher-kva.example/", True),
        ("xn--bcher-kva.example", "https://BÜCHER.example/", True),
        ("::1", "http://[0:0:0:0:0:0:0:1]:80/", True),
        ("[::1]", "http://[::1]/", True),
        ("10.0.0.1", "http://10.0.0.1:9200/", True),
    ],
)
def test_domain(domain: str, url: str, allowed: bool) -> None:
    assert _refused(url, domains=(domain,)) is not allowed


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com@evil.org/",
        "https://evil.org\\@example.com/",
        "https://evil.org%2f@example.com%00/",
        "https://exa\tmple.com/",
        "https://evil.org/\n@example.com",
        "https://example.com:99999/",
        "https://[::1/",
        "https:///path",
        "example.com/path",
        "",
    ],
)
def test_tricks_with_the_host_are_refused(url: str) -> None:
    assert _refused(url, domains=("example.com",))


def test_empty_lists_allow_nothing() -> None:
    assert _refused("https://example.com/", domains=())
    assert _refused("https://example.com/", methods=())


def test_methods_are_compared_in_capitals() -> None:
    assert not _refused("https://example.com/", "get", methods=("GET",))
    assert _refused("https://example.com/", "POST", methods=("GET",))


def test_refusal_names_host_and_way_out_but_not_the_url() -> None:
    rules = NetRules(domains=("example.com",))
    found = net_refusal(rules, "GET", "https://u:hunter2@evil.org/?key=hunter3")
    assert isinstance(found, PolicyRefused)
    assert found.fields == {"host": "evil.org"}
    assert "example.com" in found.hint
    assert "hunter" not in f"{found.message} {found.hint}"


@pytest.mark.parametrize(
    "ip, called",
    [
        ("0.0.0.0", "this network"),
        ("0.1.2.3", "this network"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("127.0.0.1", "loopback"),
        ("127.255.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("100.64.0.1", "shared by a carrier"),
        ("100.127.255.255", "shared by a carrier"),
        ("192.0.0.8", "reserved"),
        ("198.18.0.1", "for benchmarks"),
        ("192.0.2.1", "not public"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::", "unspecified"),
        ("::1", "loopback"),
        ("[::1]", "loopback"),
        ("::ffff:127.0.0.1", "IPv4 written as IPv6"),
        ("::ffff:8.8.8.8", "IPv4 written as IPv6"),
        ("64:ff9b::a00:1", "private"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("fc00::1", "private"),
        ("fdff::1", "private"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("febf::1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
        ("2001:db8::1", "not public"),
        ("localhost", "not an address"),
        ("127.1", "not an address"),
        ("", "not an address"),
    ],
)
def test_address_that_is_not_public(ip: str, called: str) -> None:
    found = address_refusal(NetRules(), ip)
    assert isinstance(found, PolicyRefused)
    assert found.message.endswith(f": {called}")
    assert "privateAddresses" in found.hint
    assert address_refusal(NetRules(private_addresses=True), ip) is None


@pytest.mark.parametrize(
    "ip",
    [
        "8.8.8.8",
        "1.1.1.1",
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "64:ff9b::808:808",
    ],
)
def test_public_address(ip: str) -> None:
    assert address_refusal(NetRules(), ip) is None


@pytest.mark.parametrize(
    "before, after, kept",
    [
        ("https://a.com/x", "https://a.com/y", True),
        ("https://a.com/x", "https://A.com:443/y", True),
        ("http://a.com:80/", "http://a.com/", True),
        ("https://a.com/", "http://a.com/", False),
        ("https://a.com/", "https://a.com:8443/", False),
        ("https://a.com/", "https://b.a.com/", False),
        ("https://b.a.com/", "https://a.com/", False),
        ("https://a.com/", "https://a.com\\.evil.org/", False),
        ("", "", False),
    ],
)
def test_credentials_stay_with_their_origin(before: str, after: str, kept: bool) -> None:
    assert keeps_credentials(before, after) is kept
