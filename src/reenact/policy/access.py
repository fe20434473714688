"""Access rules: which capabilities exist, and whether a policy allows a call and its size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from reenact.errors import BudgetExceeded, CapabilityDenied, PolicyRefused, UsageError
from reenact.policy.model import Pinned, Policy, stays_inside
from reenact.policy.nearest import did_you_mean
from reenact.policy.patterns import lazy_pattern

__all__ = [
    "BUILT_IN",
    "KNOWN",
    "PROTOCOL_VERSION",
    "Access",
    "Capabilities",
    "check_mode",
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
                hint="one process knows one version of a capability; agree on one, or choose "
                "another name",
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
            hint=f"make fewer, or raise capabilities.{capability}.calls in {self._place}",
            capability=capability,
            policy=self._policy.id,
            budget="calls",
            limit=limit,
            actual=calls + 1,
        )

    def _not_listed(self, what: str, name: str) -> PolicyRefused:
        allowed = (self._pinned.kinds if what == "kind" else self._pinned.operations) or ()
        return PolicyRefused(
            f"the {what} {name} is not among those that the index allows for the policy "
            f"{self._policy.id}",
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
