"""Facts about one divergence, the remedies for it, and the locations of its differences in words."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from reenact.diff.values import Difference
from reenact.engine.divergence.causes import (
    IgnoreRule,
    Remedy,
    differing_parameters,
    ignore_policy,
    ignore_rule_for,
)
from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import ReenactError, UsageError
from reenact.format.canonical import canonical
from reenact.format.event import Data
from reenact.format.json_path import Path, lookup, parse
from reenact.lenses.registry import may_ask
from reenact.policy.matching import Comparer, Rules
from reenact.policy.redaction.redactor import Redactor
from reenact.policy.redaction.structure import is_pair, pair_name

__all__ = [
    "Case",
    "DifferingPlace",
    "NearbyCall",
    "ReplayCommands",
    "RequestLocation",
    "ignore_remedy",
    "letting_differ",
    "locate",
    "merged",
    "settles_all",
    "update_remedy",
]


class NearbyCall(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded call near the divergence.

    ``became`` is ``same`` if the replay made the same call, ``differs`` if it made a different one,
    and ``not`` if it did not get as far.
    """

    seq: int
    lane: str
    type: str
    kind: str
    name: str
    data: Data
    became: Literal["same", "differs", "not"]
    failed: str = ""
    """Error that is a reason to retry: ``503``, ``ConnectError``."""


class ReplayCommands(msgspec.Struct, frozen=True, kw_only=True):
    """Commands that replay, and that update or repeat the recording."""

    replay: str
    update: str
    add: str
    rewrite: str
    recorded: str = ""
    """The replay with the arguments of the recording, where those are others."""
    fork: tuple[str, str] | None = None
    """To fork the run: what stands before the options, and after them."""


class DifferingPlace(msgspec.Struct, frozen=True):
    """A gap, and its path as steps: empty where the path was cut."""

    gap: Gap
    path: Path

    @property
    def difference(self) -> Difference:
        return Difference(self.path, self.gap.kind, self.gap.expected, self.gap.observed)


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Facts about one divergence.

    ``near`` are recorded calls of the lane, in order; empty without a recording. ``then`` and
    ``now`` are the recorded and the reported environment.
    """

    divergence: Divergence
    again: ReplayCommands
    near: list[NearbyCall] = []
    status: str = ""
    """Of the recording: ``ok``, ``error``, ``recovered``; empty when it is not at hand."""
    policy: str = ""
    """The id of the one that it was recorded under."""
    left: int = 0
    """Number of recorded calls in the lane after the divergence."""
    then: dict[str, str] = {}
    now: dict[str, str] = {}
    recorded_arguments: list[str] = []
    given_arguments: list[str] = []

    @cached_property
    def places(self) -> list[DifferingPlace]:
        """Paths that differ."""
        return [DifferingPlace(gap, _steps(gap.path)) for gap in self.divergence.paths]

    @property
    def asked(self) -> Any:
        """Request of the program, as far as the report shows it."""
        return None if self.divergence.observed is None else self.divergence.observed.request

    @property
    def recorded(self) -> Any:
        """Recorded request, as far as the report shows it."""
        return None if self.divergence.expected is None else self.divergence.expected.request

    @property
    def is_cut(self) -> bool:
        """True if one of the requests is missing or incomplete."""
        seen = (self.divergence.expected, self.divergence.observed)
        return any(one is None or one.digest is not None for one in seen)

    @property
    def is_model_call(self) -> bool:
        """True if the call is a model call. A net tape records it as HTTP."""
        seen = self.divergence.observed or self.divergence.expected
        if seen is None or seen.type == "llm_request":
            return seen is not None
        request = seen.request.get("request") if isinstance(seen.request, dict) else None
        if not isinstance(request, dict):
            return False
        return may_ask(str(request.get("method", "")), str(request.get("url", "")))

    @property
    def draws(self) -> frozenset[str]:
        """Sources with recorded draws: ``clock``, ``rng`` …"""
        return frozenset(self.then.get("draws", "").split())


def _steps(path: str) -> Path:
    try:
        return parse(path)
    except UsageError:  # it was cut
        return ()


def update_remedy(
    case: Case, text: str = "If the change is intended, make again what differs."
) -> Remedy:
    """Return the remedy that repeats the call and keeps the others."""
    return Remedy(text=text, command=case.again.update)


def letting_differ(kinds: Iterable[str], text: str) -> Remedy:
    """Return the remedy that adds volatile kinds to a policy."""
    return Remedy(text=text, policy={"volatile": sorted({*kinds})})


def ignore_remedy(case: Case, places: Iterable[DifferingPlace], text: str) -> Remedy | None:
    """Return the remedy that ignores these places, or None if rules cannot express it."""
    rules = [rule_of(case, place) for place in places]
    known = [rule for rule in rules if rule is not None]
    if not known or len(known) < len(rules):
        return None
    return Remedy(text=text, policy=ignore_policy((rule, rule.text) for rule in known))


def rule_of(case: Case, place: DifferingPlace) -> IgnoreRule | None:
    """Return the rule that ignores one place."""
    if not place.path:
        return None
    try:
        return ignore_rule_for(place.difference, case.recorded)
    except LookupError:  # what is shown was cut
        return None


def merged(policies: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merge policies into one."""
    whole: dict[str, Any] = {}
    for policy in policies:
        for name, said in policy.items():
            if isinstance(said, dict):
                here = whole.setdefault(name, {})
                for member, names in said.items():
                    here[member] = list(dict.fromkeys([*here.get(member, []), *names]))
            elif isinstance(said, list):
                whole[name] = sorted({*whole.get(name, []), *said})
            else:
                whole[name] = said
    return whole


def settles_all(case: Case, policy: dict[str, Any]) -> bool:
    """Return whether the call would match under ``policy``.

    Both sides are compared if they are complete, otherwise each differing place.
    """
    try:
        comparer = Comparer(_rules(policy), Redactor("none"))
        if not case.is_cut:
            one, other = comparer.normal(case.recorded), comparer.normal(case.asked)
            return canonical(one) == canonical(other)
    except ReenactError:
        return False
    return not case.divergence.more_paths and all(
        _settles(case, place, policy, comparer) for place in case.places
    )


def _rules(policy: dict[str, Any]) -> Rules:
    ignore = policy.get("ignore", {})
    return Rules(
        ignore_paths=tuple(ignore.get("paths", ())),
        ignore_headers=tuple(ignore.get("headers", ())),
        ignore_query=tuple(ignore.get("query", ())),
        volatile=tuple(policy.get("volatile", ())),
    )


def _settles(case: Case, place: DifferingPlace, policy: dict[str, Any], comparer: Comparer) -> bool:
    rule = rule_of(case, place)
    if rule is None:
        return False
    if rule.text in policy.get("ignore", {}).get(rule.member, ()):
        return True
    # Under its own name, because the name can indicate its meaning.
    name = next((step for step in reversed(place.path) if isinstance(step, str)), "")
    try:
        sides = [{name: side} for side in (place.gap.expected, place.gap.observed)]
        return place.gap.kind == "changed" and len({*map(comparer.key, sides)}) == 1
    except ReenactError:
        return False


Kind = Literal[
    "message", "system", "tool", "model", "setting", "header", "query", "url", "argument", "other"
]
_MESSAGES = frozenset({"messages", "input", "contents"})
_SYSTEM = frozenset({"system", "instructions", "systemInstruction", "system_instruction"})
_TOOLS = frozenset({"tools", "functions", "toolConfig", "tool_config"})


class RequestLocation(msgspec.Struct, frozen=True):
    """Location in a request. ``name`` is the role, tool, header, parameter or argument."""

    kind: Kind
    words: str
    name: str = ""


def locate(case: Case, place: DifferingPlace) -> RequestLocation:
    """Return the location of ``place`` in the request."""
    path = place.path
    if not path:
        return RequestLocation("other", place.gap.path)
    inside = path[1:] if path[0] == "request" else path
    if case.is_model_call:
        body = inside[1:] if inside[:1] == ("body",) else inside
        found = _of_model(case, path, body)
        if found is not None:
            return found
    if path[0] == "args" or _is_function(case, path):
        return _argument(case, path)
    if inside[:1] == ("headers",):
        return _header(case, place, path)
    if inside == ("url",):
        return _of_url(place)
    return RequestLocation("other", place.gap.path, _name(path))


def _name(path: Path) -> str:
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _of_model(case: Case, path: Path, body: Path) -> RequestLocation | None:
    first = body[0] if body else ""
    if first in _MESSAGES and len(body) > 1 and isinstance(body[1], int):
        whole = _at(case, path[: len(path) - len(body) + 2])
        role = whole.get("role") if isinstance(whole, dict) else None
        kind = whole.get("type") if isinstance(whole, dict) and role is None else None
        who = role or ("tool" if kind == "function_call_output" else kind)
        who = who if isinstance(who, str) else ""
        told = f" ({who})" if who else ""
        return RequestLocation("message", f"message {body[1] + 1}{told}", who)
    if first in _SYSTEM or body == ("input",):
        return RequestLocation(
            "system", "the system prompt" if first in _SYSTEM else "the input", str(first)
        )
    if first in _TOOLS:
        return _of_tool(case, path, body)
    if body in (("model",), ("modelId",)):
        return RequestLocation("model", "the model", "model")
    if first in ("headers", "url", "method", ""):
        return None
    return RequestLocation("setting", f"the setting {_name(path)}", _name(path))


def _of_tool(case: Case, path: Path, body: Path) -> RequestLocation:
    number = next((at for at, step in enumerate(body) if isinstance(step, int)), None)
    if number is None:
        return RequestLocation("tool", "the tool definitions")
    whole = _at(case, path[: len(path) - len(body) + number + 1])
    name = _tool_name(whole)
    return RequestLocation(
        "tool", f"the definition of the tool {name}" if name else "a tool definition", name
    )


def _tool_name(whole: Any) -> str:
    for one in (whole, *(whole.values() if isinstance(whole, dict) else ())):
        name = one.get("name") if isinstance(one, dict) else None
        if isinstance(name, str):
            return name
    return ""


def _is_function(case: Case, path: Path) -> bool:
    """Return whether the call is a function call of a boundary, and not HTTP."""
    data = case.asked if isinstance(case.asked, dict) else case.recorded
    request = data.get("request") if isinstance(data, dict) else None
    return path[0] == "request" and isinstance(request, dict) and "url" not in request


def _argument(case: Case, path: Path) -> RequestLocation:
    seen = case.divergence.observed or case.divergence.expected
    what = "" if seen is None else seen.operation.rpartition(" ")[2]
    name = str(path[1]) if len(path) > 1 else ""
    if path[:2] == ("request", "argv"):
        return RequestLocation("argument", f"the command line of {what}", name)
    return RequestLocation("argument", f"the argument {name} of {what}".replace("  ", " "), name)


def _header(case: Case, place: DifferingPlace, path: Path) -> RequestLocation:
    at = path.index("headers") + 1
    step = path[at] if len(path) > at else ""
    pair: Any = None
    if isinstance(step, int):
        pair = _at(case, path[: at + 1])
        if not is_pair(pair):
            pair = place.gap.observed or place.gap.expected
    name = step if isinstance(step, str) else pair_name(pair[0]) if is_pair(pair) else ""
    return RequestLocation("header", f"the header {name}" if name else "the headers", name)


def _of_url(place: DifferingPlace) -> RequestLocation:
    """Return the part of the URL that differs, if it is a single part."""
    names = differing_parameters(place.gap.expected, place.gap.observed)
    if names is not None:
        if len(names) == 1:
            return RequestLocation("query", f"the parameter {names[0]} of the URL", names[0])
        return RequestLocation("url", "the parameters of the URL", "url")
    try:
        mine, theirs = urlsplit(place.gap.expected), urlsplit(place.gap.observed)
        same_path = (mine.path, mine.query) == (theirs.path, theirs.query)
    except (AttributeError, TypeError, ValueError):
        same_path = False
    return RequestLocation("url", "the address in the URL" if same_path else "the URL", "url")


def _at(case: Case, path: Path) -> Any:
    for whole in (case.asked, case.recorded):
        try:
            return lookup(whole, path)
        except (LookupError, TypeError):
            continue
    return None
