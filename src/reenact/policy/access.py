"""Access rules: which capabilities exist, whether a policy allows a call and its size, and which hosts
a program can connect to.

Errors about hosts only name host and method, because a URL contains secrets.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from reenact.errors import BudgetExceeded, CapabilityDenied, PolicyRefused, UsageError, did_you_mean
from reenact.policy.model import NetRules, Pinned, Policy, stays_inside
from reenact.policy.patterns import lazy_pattern

__all__ = [
    "BUILT_IN",
    "KNOWN",
    "PROTOCOL_VERSION",
    "Access",
    "Capabilities",
    "address_refusal",
    "check_mode",
    "keeps_credentials",
    "net_refusal",
    "over_bytes",
    "over_entries",
    "over_key",
    "over_request",
    "over_response",
    "set_hash",
]

PROTOCOL_VERSION = 1
"""Of the report that ``reenact capabilities --json`` prints."""

BUILT_IN: Mapping[str, str] = dict.fromkeys(
    """
    net.fetch net.stream net.connect llm.call tool.call process.exec time.now random fs.read fs.write
    env.read mcp.call
    """.split(),
    "1",
)

_NAME = lazy_pattern(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_VERSION = lazy_pattern(r"[0-9A-Za-z][0-9A-Za-z._-]*")
_LONGEST = 128


class Capabilities:
    """A registry. Entries are only added, each by one assignment, so it is safe to share."""

    def __init__(self, versions: Mapping[str, str] = BUILT_IN) -> None:
        self._versions = dict(versions)
        self._hashed = (0, "")
        """Number of entries when the hash was computed, and the hash."""

    def register(self, name: str, version: str = "1") -> None:
        """Make a capability known. Again with the same version changes nothing.

        Known is not allowed: a policy has to name it. Raises :class:`UsageError` for a name that
        cannot be one and for a second version.
        """
        if not _NAME.fullmatch(name) or len(name) > _LONGEST:
            raise UsageError(
                f"{name[:_LONGEST]!r} cannot be the name of a capability",
                hint="small letters, digits and '_', in words joined by '.', such as db.query",
            )
        if not _VERSION.fullmatch(version) or len(version) > _LONGEST:
            raise UsageError(
                f"{version[:_LONGEST]!r} cannot be the version of the capability {name}",
                hint="letters, digits, '.', '_' and '-', such as 1",
            )
        if self._versions.setdefault(name, version) != version:
            raise UsageError(
                f"the capability {name} is registered with version {self._versions[name]}, "
                f"not {version}",
                hint="register the same version everywhere in the process, or choose a different "
                "name",
            )

    def __contains__(self, name: object) -> bool:
        return name in self._versions

    def items(self) -> tuple[tuple[str, str], ...]:
        """Names and versions, sorted by name."""
        return tuple(sorted(self._versions.items()))

    def nearest(self, name: str) -> str:
        """A hint for a name that is not known."""
        return did_you_mean(name, self._versions)

    def capability_set_hash(self) -> str:
        """Return ``sha256:<64 hex>``, which only depends on the names and versions."""
        count, found = self._hashed
        if count != len(self._versions):  # entries are only added
            items = self.items()
            found = set_hash(items)
            self._hashed = (len(items), found)
        return found


def set_hash(items: Iterable[tuple[str, str]]) -> str:
    """The hash over ``name TAB version LF`` for every item, sorted by name."""
    lines = "".join(f"{name}\t{version}\n" for name, version in sorted(items))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


KNOWN = Capabilities()
"""Capabilities of this process. Boundaries and programs register theirs."""


_CACHE_LIMIT = 4096

# Decision for one kind of call: the refusal, if any, and the allowed number of calls.
_Verdict = tuple[Callable[[], PolicyRefused] | None, int | None]


class Access:
    """The decision for one session. Holds a bounded cache and is otherwise immutable."""

    def __init__(self, pinned: Pinned, known: Capabilities = KNOWN) -> None:
        self._pinned = pinned
        self._policy = pinned.policy
        self._known = known
        self._verdicts: dict[tuple[str, str, str], _Verdict] = {}

    def refusal(
        self, capability: str, kind: str, operation: str, calls: int
    ) -> PolicyRefused | None:
        """Why the call is refused; None when it may be made. Never raises, always a new instance.

        ``calls`` is how many calls of this capability the session has let through before.
        """
        place = capability, kind, operation
        found = self._verdicts.get(place)
        if found is None:
            if capability not in self._known:
                return self._unknown(capability)  # not kept: it may be registered later
            if len(self._verdicts) >= _CACHE_LIMIT:
                self._verdicts.clear()
            found = self._verdicts[place] = self._decide(capability, kind, operation)
        refuse, limit = found
        if refuse is not None:
            return refuse()
        if limit is not None and calls >= limit:
            return self._spent(capability, limit, calls)
        return None

    def unlisted(self, kind: str, operation: str) -> PolicyRefused | None:
        """Why the index does not allow a call of this kind and operation; None when it does.

        For entries of cassettes, which need no capability: serving one does nothing.
        """
        if not self._lists_kind(kind):
            return self._not_listed("kind", kind)
        return (
            None if self._lists_operation(operation) else self._not_listed("operation", operation)
        )

    def passing(self, capability: str, operation: str) -> PolicyRefused | None:
        """Why a call that wants to go unrecorded may not; None when it may."""
        if self._may_pass(capability):
            return None
        return self._passes(capability, operation, who=f"{operation} itself")

    def _may_pass(self, capability: str) -> bool:
        return self._policy.allow_passthrough or stays_inside(capability)

    def is_free(self, capability: str, kind: str, operation: str) -> bool:
        """May such calls be made as often as one likes?"""
        if self.refusal(capability, kind, operation, 0) is not None:
            return False
        return self._verdicts[capability, kind, operation][1] is None

    def _decide(self, capability: str, kind: str, operation: str) -> _Verdict:
        rules = self._policy.capabilities
        rule = None if rules is None else rules.get(capability)
        allowed = rules is None and capability in BUILT_IN if rule is None else rule.allow
        if not allowed:
            return lambda: self._denied(capability), None
        if not self._lists_kind(kind):
            return lambda: self._not_listed("kind", kind), None
        if not self._lists_operation(operation):
            return lambda: self._not_listed("operation", operation), None
        action = self._policy.action_for(capability, operation)
        if action == "block":
            return lambda: self._blocked(capability, operation), None
        if action == "pass" and not self._may_pass(capability):
            return lambda: self._passes(capability, operation), None
        return None, None if rule is None else rule.calls

    def _lists_kind(self, kind: str) -> bool:
        return self._pinned.kinds is None or kind in self._pinned.kinds

    def _lists_operation(self, operation: str) -> bool:
        listed = self._pinned.operations
        return listed is None or any(fnmatchcase(operation, one) for one in listed)

    @property
    def _place(self) -> str:
        return self._pinned.path or f"the policy {self._policy.id}"

    def _unknown(self, capability: str) -> CapabilityDenied:
        return CapabilityDenied(
            f"the capability {capability} is not known, so the policy {self._policy.id} denies it",
            hint=f"{self._known.nearest(capability)} (a program makes its own known with "
            "reenact.policy.access.KNOWN.register)",
            capability=capability,
            policy=self._policy.id,
        )

    def _denied(self, capability: str) -> CapabilityDenied:
        if self._policy.capabilities is None:
            way = 'list what the program may do under "capabilities" in its policy, this one too'
        else:
            way = (
                f'"{capability}": {{"allow": true}} under "capabilities" in {self._place} allows it'
            )
        return CapabilityDenied(
            f"the policy {self._policy.id} does not allow {capability}",
            hint=way,
            capability=capability,
            policy=self._policy.id,
        )

    def _spent(self, capability: str, limit: int, calls: int) -> BudgetExceeded:
        return BudgetExceeded(
            f"the policy {self._policy.id} allows {limit} calls of {capability}; this would be "
            f"number {calls + 1}",
            hint=f"make fewer calls, or raise capabilities.{capability}.calls in {self._place}",
            capability=capability,
            policy=self._policy.id,
            budget="calls",
            limit=limit,
            actual=calls + 1,
        )

    def _not_listed(self, what: str, name: str) -> PolicyRefused:
        allowed = (self._pinned.kinds if what == "kind" else self._pinned.operations) or ()
        return PolicyRefused(
            f"the index does not allow the {what} {name} for the policy {self._policy.id}",
            hint=f"{did_you_mean(name, allowed)} ({self._pinned.place_of(f'{what}s')})",
            policy=self._policy.id,
            **{what: name},
        )

    def _blocked(self, capability: str, operation: str) -> CapabilityDenied:
        return CapabilityDenied(
            f"a rule of the policy {self._policy.id} blocks {capability} {operation}",
            hint=f"see boundaries in {self._place}",
            capability=capability,
            operation=operation,
            policy=self._policy.id,
        )

    def _passes(self, capability: str, operation: str, *, who: str = "") -> PolicyRefused:
        who = who or f"a rule of the policy {self._policy.id}"
        return PolicyRefused(
            f"{who} would let {capability} {operation} out unrecorded",
            hint=f'record it, or say "allowPassthrough": true in {self._place}',
            capability=capability,
            operation=operation,
            policy=self._policy.id,
        )


def check_mode(pinned: Pinned, mode: str, world: str) -> None:
    """Raise :class:`PolicyRefused` when the index does not allow this mode, or this world."""
    lists = (("mode", mode, pinned.modes), ("world", world, pinned.worlds))
    for what, asked, allowed in lists:
        if allowed is not None and asked not in allowed:
            raise PolicyRefused(
                f"the index does not allow the {what} {asked} for the policy {pinned.policy.id}",
                hint=f"allowed: {', '.join(allowed) or 'none'} ({pinned.place_of(f'{what}s')})",
                policy=pinned.policy.id,
                **{what: asked},
            )


def over_bytes(policy: Policy, size: int) -> BudgetExceeded | None:
    """For a recording that would have ``size`` bytes."""
    return _over(policy, "cassetteBytes", policy.budgets.cassette_bytes, size)


def over_entries(policy: Policy, count: int) -> BudgetExceeded | None:
    """For a recording that would have ``count`` recorded calls."""
    return _over(policy, "entries", policy.budgets.entries, count)


def over_request(policy: Policy, size: int) -> BudgetExceeded | None:
    """For a request of ``size`` bytes."""
    return _over(policy, "requestBytes", policy.budgets.request_bytes, size)


def over_response(policy: Policy, size: int) -> BudgetExceeded | None:
    """For a response of ``size`` bytes."""
    return _over(policy, "responseBytes", policy.budgets.response_bytes, size)


def over_key(policy: Policy, size: int) -> BudgetExceeded | None:
    """For a key, before it is hashed, of ``size`` bytes."""
    return _over(policy, "keyBytes", policy.budgets.key_bytes, size)


def _over(policy: Policy, budget: str, limit: int | None, actual: int) -> BudgetExceeded | None:
    if limit is None or actual <= limit:
        return None
    return BudgetExceeded(
        f"the policy {policy.id} has a budget of {limit} for {budget}; this needs {actual}",
        hint=f"make it smaller, or raise budgets.{budget} in the policy; left out, it is unlimited",
        policy=policy.id,
        budget=budget,
        limit=limit,
        actual=actual,
    )


if TYPE_CHECKING:  # imported on use: most programs never check an address
    import ipaddress

    _Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    _Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Clients do not agree on what these mean in a host, so none of them is taken for an allowed one.
_DOUBTFUL = lazy_pattern(r"[\x00-\x20\x7f\\%<>^`{|}\"]")
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}

_CLOSED = (
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
_NAT64 = "64:ff9b::/96"


@cache
def _network(text: str) -> _Network:
    import ipaddress

    return ipaddress.ip_network(text)


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
            "the policy allows only certain hosts, and the host of this URL is ambiguous",
            hint="write the URL as scheme://host/path with a plain host name",
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
    import ipaddress

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
    import ipaddress

    try:
        address = ipaddress.ip_address(ip.strip("[]"))
    except ValueError:
        return _closed(repr(ip[:64]), "not an address")
    called = _called(address)
    return None if called is None else _closed(str(address), called)


def _called(address: _Address) -> str | None:
    """Return the kind of a non-public address."""
    for text, called in _CLOSED:
        network = _network(text)
        if address.version == network.version and address in network:
            return called
    inside = _inside(address)
    if inside is not None:
        return _called(inside)
    # Further ranges of the standard library: documentation, discard-only, later registrations.
    return None if address.is_global else "not public"


def _inside(address: _Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that a gateway would take out of an IPv6 one."""
    import ipaddress

    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _network(_NAT64):
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
