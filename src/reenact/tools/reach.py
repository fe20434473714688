"""Connections for the ready-made tools: to addresses that were looked at."""

from __future__ import annotations

import http.client
import socket
import ssl
from ipaddress import ip_address, ip_network
from typing import Any, Final
from urllib.parse import SplitResult

import msgspec

from reenact._system import monotonic
from reenact.engine.session.context import current
from reenact.policy.net import address_refusal
from reenact.policy.rules import NetRules

__all__ = ["LIMITS", "Limits", "connection"]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a fetch may cost, and which addresses it may reach besides public ones: all
    ``private_addresses`` (a policy may allow them, too), or those in ``networks``, such as
    ``127.0.0.1`` and ``10.0.0.0/8``."""

    max_bytes: int = 2_000_000
    max_redirects: int = 3
    timeout: float = 30.0
    private_addresses: bool = False
    networks: tuple[str, ...] = ()


LIMITS: Final = Limits()


def connection(parts: SplitResult, limits: Limits, until: float) -> http.client.HTTPConnection:
    """To whom ``parts`` name; it connects when something is sent. ``until`` is on the monotonic
    clock."""
    kind, port = (_Secure, 443) if parts.scheme == "https" else (_Plain, 80)
    assert parts.hostname is not None
    return kind(parts.hostname, parts.port or port, reach=_Reach(limits), until=until)


class _Reach:
    """Which addresses may be connected to, in the session that is in force when it is made."""

    def __init__(self, limits: Limits) -> None:
        session = current()
        self._rules = NetRules() if session is None else session.settings.policy.net
        self._all = limits.private_addresses
        self._networks = [ip_network(one) for one in limits.networks]

    def connect(self, host: str, port: int, timeout: Any) -> socket.socket:
        """A connection to the first address of ``host`` that answers; all of them must be
        allowed. Raises :class:`PolicyRefused`."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for *_, address in found:
            self._check(str(address[0]).partition("%")[0])
        failure: OSError = OSError("the name leads to no address")
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(timeout)
                sock.connect(address)
                return sock
            except OSError as error:
                sock.close()
                failure = error
        raise failure

    def _check(self, address: str) -> None:
        if self._all or any(ip_address(address) in network for network in self._networks):
            return
        refusal = address_refusal(self._rules, address)
        if refusal is not None:
            raise refusal


class _Plain(http.client.HTTPConnection):
    """Connects to an address that was looked at. Inside a session that happens in the live half of
    a call, and never in a replay."""

    def __init__(self, host: str, port: int, *, reach: _Reach, until: float) -> None:
        super().__init__(host, port, timeout=max(0.001, until - monotonic()))
        self._reach = reach

    def connect(self) -> None:
        self.sock = self._reach.connect(self.host, self.port, self.timeout)


class _Secure(http.client.HTTPSConnection):
    """The same with TLS."""

    def __init__(self, host: str, port: int, *, reach: _Reach, until: float) -> None:
        self._tls = ssl.create_default_context()
        timeout = max(0.001, until - monotonic())
        super().__init__(host, port, timeout=timeout, context=self._tls)
        self._reach = reach

    def connect(self) -> None:
        sock = self._reach.connect(self.host, self.port, self.timeout)
        try:
            self.sock = self._tls.wrap_socket(sock, server_hostname=self.host)
        except BaseException:
            sock.close()
            raise
