"""Network rules: the hosts a program can connect to. Errors only name host and method, because a
URL contains secrets.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from reenact.errors import PolicyRefused
from reenact.policy.model import NetRules
from reenact.policy.patterns import lazy_pattern

__all__ = ["address_refusal", "keeps_credentials", "net_refusal"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# Clients do not agree on what these mean in a host, so none of them is taken for an allowed one.
_DOUBTFUL = lazy_pattern(r"[\x00-\x20\x7f\\%<>^`{|}\"]")
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

_CLOSED = tuple(
    (ipaddress.ip_network(network), called)
    for network, called in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0/96", "IPv4 written as IPv6"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def net_refusal(rules: NetRules, method: str, url: str) -> PolicyRefused | None:
    """Why the policy refuses this request; None when host and method are allowed."""
    if rules.methods is not None and method.upper() not in rules.methods:
        return PolicyRefused(
            f"the policy does not allow the method {method.upper()[:32]}",
            hint=f"allowed: {', '.join(rules.methods) or 'none'} (net.methods in the policy)",
            method=method.upper()[:32],
        )
    if rules.domains is None:
        return None
    host = _host(url)
    if host is None:
        return PolicyRefused(
            "the policy allows certain hosts, and the host of this URL cannot be told for sure",
            hint="write the URL as scheme://host/path, with nothing unusual in the host",
        )
    if any(_matches(host, _plain(domain)) for domain in rules.domains):
        return None
    return PolicyRefused(
        f"the policy does not allow connections to {host}",
        hint=f"allowed: {', '.join(rules.domains) or 'none'} (net.domains in the policy)",
        host=host,
    )


def _host(url: str) -> str | None:
    """The host in the form in which hosts are compared; None when in doubt."""
    parts = _split(url)
    if parts is None or _DOUBTFUL.search(parts.netloc) or not parts.hostname:
        return None
    return _plain(parts.hostname)


def _split(url: str) -> SplitResult | None:
    # Line ends and tabs are dropped by some readers of URLs and kept by others.
    if re.search(r"[\t\r\n]", url):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port  # reading it checks it
    except ValueError:
        return None
    return parts


@lru_cache(maxsize=1024)
def _plain(host: str) -> str:
    """Lower case, no final dot, no brackets, and the spelling in ASCII of an international name."""
    star = "*." if host.startswith("*.") else ""
    name = host.removeprefix(star).strip("[]").rstrip(".")
    if ":" in name:
        return _address(name)
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            pass  # then it equals no name but itself
    return f"{star}{name.lower()}"


def _address(name: str) -> str:
    """An IPv6 address has many spellings."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _matches(host: str, domain: str) -> bool:
    if not domain.startswith("*."):
        return host == domain
    apex = domain[2:]
    return host == apex or host.endswith(f".{apex}")


def address_refusal(rules: NetRules, ip: str) -> PolicyRefused | None:
    """Why a live fetch must not connect to this address, which the host name has led to.

    To be asked of every address, of every hop. None when it is public or private ones are allowed.
    """
    if rules.private_addresses:
        return None
    try:
        address = ipaddress.ip_address(ip.strip("[]"))
    except ValueError:
        return _closed(repr(ip[:64]), "not an address")
    called = _called(address)
    return None if called is None else _closed(str(address), called)


def _called(address: _Address) -> str | None:
    """Return the kind of a non-public address."""
    for network, called in _CLOSED:
        if address.version == network.version and address in network:
            return called
    inside = _inside(address)
    if inside is not None:
        return _called(inside)
    # Further ranges of the standard library: documentation, discard-only, later registrations.
    return None if address.is_global else "not public"


def _inside(address: _Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a gateway would take out of an IPv6 one."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


def _closed(address: str, called: str) -> PolicyRefused:
    return PolicyRefused(
        f"a live fetch must not connect to {address}: {called}",
        hint='"privateAddresses": true under "net" in the policy allows it',
        address=address,
    )


def keeps_credentials(from_url: str, to_url: str) -> bool:
    """May a redirect carry the credentials on? Only to the same scheme, host and port."""
    before, after = _origin(from_url), _origin(to_url)
    return before is not None and before == after


def _origin(url: str) -> tuple[str, str, int | None] | None:
    parts, host = _split(url), _host(url)
    if parts is None or host is None:
        return None
    return parts.scheme, host, parts.port or _PORTS.get(parts.scheme)
