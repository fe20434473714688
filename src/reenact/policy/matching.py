"""Comparison of requests: the key of a request, and the parts of it that a policy ignores.

A request is redacted before it is compared, because the recorded side was redacted when it was
written. Ignored parts are removed next, then pseudonyms become one placeholder. A replay therefore
matches with different credentials or none, and a recorded request has the same key as a live one.

:mod:`reenact.policy.noise` describes the paths to ignore. An ignored member of an object can also be
missing. An ignored element of a list keeps its position, so the other elements keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol
from urllib.parse import unquote_plus

import msgspec

from reenact.errors import PolicyInvalid, UsageError
from reenact.format.canonical import canonical, digest_bytes
from reenact.format.json_path import Path
from reenact.policy.noise import NoiseFilter, NoiseRule, Taken, parse_path_pattern
from reenact.policy.redaction.placeholder import blind
from reenact.policy.redaction.redactor import Redactor, embedded
from reenact.policy.redaction.structure import is_pair, pair_name, with_items
from reenact.policy.volatile import Volatile

__all__ = [
    "Comparer",
    "IgnoredMembers",
    "Rules",
    "ignored_paths",
]

_PSEUDONYM = b"***REDACTED:"
_STAR, _DOLLAR = ord("*"), ord("$")  # a number is found in bytes ten times as fast as a byte string


class Rules(msgspec.Struct, frozen=True):
    """Parts of a request that do not count.

    Paths are relative to the request. :mod:`reenact.policy.volatile` lists the kinds of volatile
    values.
    """

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
        """Return the compared form of ``request``. Unchanged parts are shared with the input."""
        return self._normal(request, canonical(request))

    def applied(self, expected: dict[str, Any], observed: dict[str, Any]) -> tuple[str, ...]:
        """Return the rules that hid a difference between the two.

        First ``ignore header x-request-id`` and ``ignore query ts``, then ``ignore $.id``, then
        ``volatile uuids``. A part that one rule removed cannot be hidden by a later one.
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
    # Headers are first, so that positions in a list of headers are the ones that a report shows.
    if rules.ignore_headers or rules.ignore_query:
        stages.append(IgnoredMembers(rules.ignore_headers, rules.ignore_query))
    if rules.ignore_paths:
        stages.append(ignored_paths(rules.ignore_paths))
    if rules.volatile:
        stages.append(Volatile(rules.volatile))
    return tuple(stages)


def ignored_paths(texts: Iterable[str]) -> NoiseFilter:
    """Return the filter for the ignored paths of a policy. Raises :class:`PolicyInvalid`."""
    rules: list[NoiseRule] = []
    for number, text in enumerate(texts):
        try:
            parse_path_pattern(text)
        except UsageError as error:
            place = f"$.ignore.paths[{number}]"
            raise PolicyInvalid(error.message, place=place, hint=error.hint or "") from None
        rules.append(NoiseRule(text))
    return NoiseFilter(rules)


def _unlike(mine: Taken, theirs: Taken) -> list[str]:
    """The rules that did not take the same out of both, sorted."""
    rules = {rule for rule, _, _ in (*mine, *theirs)}
    return [rule for rule in sorted(rules) if _of(rule, mine) != _of(rule, theirs)]


def _of(rule: str, taken: Taken) -> list[tuple[str, bytes]]:
    # Sorted: the order of fields in an object means nothing.
    return sorted((repr(place), found) for name, place, found in taken if name == rule)


class IgnoredMembers:
    """Remover of ignored headers and query parameters.

    Headers are under ``headers``, as pairs or as a mapping, and their case does not matter.
    Parameters are in the text under ``url`` and under ``query``, as pairs or as a mapping.
    """

    def __init__(self, headers: Iterable[str], query: Iterable[str]) -> None:
        self._headers = frozenset(name.lower() for name in headers)
        self._query = frozenset(query)

    def strip(self, value: Any, taken: Taken | None = None) -> Any:
        """``value`` without them; what did not change is shared."""
        return self._strip(value, (), taken)

    def _strip(self, value: Any, path: Path, taken: Taken | None) -> Any:
        if isinstance(value, (list, tuple)):
            return with_items(value, lambda at, item: self._strip(item, (*path, at), taken))
        if not isinstance(value, dict):
            return value

        def change(key: Any, item: Any) -> Any:
            simple = key != "url" and not isinstance(item, (dict, list, tuple))
            return item if simple else self._member(key, item, (*path, key), taken)

        return with_items(value, change)

    def _member(self, key: Any, item: Any, path: Path, taken: Taken | None) -> Any:
        if key == "headers" and self._headers:
            item = self._named(item, "header", path, taken)
        elif key == "query" and self._query:
            item = self._named(item, "query", path, taken)
        elif key == "url" and self._query and isinstance(item, str):
            return self._url(item, path, taken)
        return self._strip(item, path, taken)

    def _named(self, value: Any, what: str, path: Path, taken: Taken | None) -> Any:
        if isinstance(value, dict):
            members = {
                name: item
                for name, item in value.items()
                if not self._takes(what, str(name), item, (*path, name), taken)
            }
            return value if len(members) == len(value) else members
        if not isinstance(value, (list, tuple)):
            return value
        kept = [
            item
            for index, item in enumerate(value)
            if not is_pair(item)
            or not self._takes(what, pair_name(item[0]), item[1], (*path, index), taken)
        ]
        return value if len(kept) == len(value) else kept

    def _takes(self, what: str, name: str, value: Any, place: Path, taken: Taken | None) -> bool:
        spelled = name.lower() if what == "header" else name
        if spelled not in (self._headers if what == "header" else self._query):
            return False
        if taken is not None:
            taken.append((f"ignore {what} {spelled}", place, canonical(value)))
        return True

    def _url(self, url: str, path: Path, taken: Taken | None) -> str:
        rest, hash_mark, fragment = url.partition("#")
        base, mark, query = rest.partition("?")
        if not mark:
            return url
        parts = query.split("&")
        kept = [
            part
            for index, part in enumerate(parts)
            if not self._takes_part(part, (*path, index), taken)
        ]
        if len(kept) == len(parts):
            return url
        return base + ("?" + "&".join(kept) if kept else "") + hash_mark + fragment

    def _takes_part(self, part: str, place: Path, taken: Taken | None) -> bool:
        name, _, value = part.partition("=")
        return self._takes("query", unquote_plus(name), value, place, taken)
