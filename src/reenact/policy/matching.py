"""When two requests are the same: the key of a request, and the value it is the digest of.

What is compared is redacted first, because the recorded side has been redacted before anybody can
look at it; then what the policy ignores is taken out; then pseudonyms become the one placeholder.
So a replay matches with other credentials or none, and the key of a request as recorded is that of
the request as asked.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from reenact.format.canonical import canonical, digest_bytes
from reenact.policy.ignoring import Members, Paths
from reenact.policy.payloads import embedded
from reenact.policy.placeholder import blind
from reenact.policy.redaction import Redactor
from reenact.policy.volatile import Taken, Volatile

__all__ = ["Comparer", "Rules"]

_PSEUDONYM = b"***REDACTED:"
_STAR, _DOLLAR = ord("*"), ord("$")  # a number is found in bytes ten times as fast as a byte string


class Rules(msgspec.Struct, frozen=True):
    """What does not count. Paths are relative to the request; see :mod:`reenact.policy.ignoring`
    and :mod:`reenact.policy.volatile`."""

    ignore_paths: tuple[str, ...] = ()
    ignore_headers: tuple[str, ...] = ()
    ignore_query: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()


class _Stage(Protocol):
    def strip(self, value: Any, taken: Taken | None = None) -> Any: ...


class Comparer:
    """Compares requests under ``rules``. Immutable; safe to share between threads.

    Raises :class:`PolicyInvalid` for a rule that cannot be read. Requests are made of what
    canonical JSON can hold, else :class:`ValueRefused`.
    """

    def __init__(self, rules: Rules, redactor: Redactor) -> None:
        self.rules = rules
        self._redactor = redactor.without_excuses()
        self._stages = _stages(rules)

    def key(self, request: dict[str, Any]) -> str:
        """``sha256:…`` of :meth:`normal`. Without rules and secrets this is one encoding."""
        encoded = canonical(request)
        if not self._stages and self._is_plain(encoded):
            return digest_bytes(encoded)
        return digest_bytes(canonical(self._normal(request, encoded)))

    def normal(self, request: dict[str, Any]) -> Any:
        """What of ``request`` is compared. Shares with it what did not change."""
        return self._normal(request, canonical(request))

    def applied(self, expected: dict[str, Any], observed: dict[str, Any]) -> tuple[str, ...]:
        """The rules that hid a difference between the two.

        First ``ignore header x-request-id`` and ``ignore query ts``, then ``ignore $.id``, then
        ``volatile uuids``. What one of them has taken out, a later one cannot hide.
        """
        found: list[str] = []
        left, right = self._redacted(expected), self._redacted(observed)
        for stage in self._stages:
            mine: Taken = []
            theirs: Taken = []
            left, right = stage.strip(left, mine), stage.strip(right, theirs)
            found += _unlike(mine, theirs)
        return tuple(found)

    def _normal(self, request: dict[str, Any], encoded: bytes) -> Any:
        value: Any = request
        if self._redactor.suspects(encoded):
            value = self._redactor.redact(value).value
        for stage in self._stages:
            value = stage.strip(value)
        return blind(value)

    def _redacted(self, request: dict[str, Any]) -> Any:
        if not self._redactor.suspects(canonical(request)):
            return blind(request)
        return blind(self._redactor.redact(request).value)

    def _is_plain(self, encoded: bytes) -> bool:
        """Is this, as it is, what would be compared?"""
        if _STAR in encoded and _PSEUDONYM in encoded:
            return False
        if _DOLLAR in encoded and any(_PSEUDONYM in leaf for leaf in embedded(encoded)):
            return False
        return not self._redactor.suspects(encoded)


def _stages(rules: Rules) -> tuple[_Stage, ...]:
    stages: list[_Stage] = []
    # Headers go first: places in a list of headers are then those that a report shows.
    if rules.ignore_headers or rules.ignore_query:
        stages.append(Members(rules.ignore_headers, rules.ignore_query))
    if rules.ignore_paths:
        stages.append(Paths(rules.ignore_paths))
    if rules.volatile:
        stages.append(Volatile(rules.volatile))
    return tuple(stages)


def _unlike(mine: Taken, theirs: Taken) -> list[str]:
    """The rules that did not take the same out of both, sorted."""
    rules = {rule for rule, _, _ in (*mine, *theirs)}
    return [rule for rule in sorted(rules) if _of(rule, mine) != _of(rule, theirs)]


def _of(rule: str, taken: Taken) -> list[tuple[str, bytes]]:
    # Sorted: the order of fields in an object means nothing.
    return sorted((repr(place), found) for name, place, found in taken if name == rule)
