"""What to do about a divergence: the lines of its hint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from reenact.diff.values import Difference
from reenact.engine.bounding import Bounds
from reenact.engine.nearest import Likeness
from reenact.format.paths import Path, lookup
from reenact.policy.structure import is_pair, pair_name
from reenact.policy.volatile import KINDS, settles

__all__ = [
    "Ignore",
    "about_differences",
    "about_files",
    "about_nearest",
    "rule_for",
]

_FEW = 3
_ESSENCE = frozenset("args key model name op provider request source type".split())
"""Fields of a request without which it would be any call at all."""
_PATH_ROOM = 200


def about_nearest(found: Iterable[Likeness], lane: str, seq: int | None) -> Iterator[str]:
    """Where the very call that was asked for stands in the recording, if it does."""
    same = next((one for one in found if one.score == 1), None)
    if same is None:
        return
    event = same.event
    if same.used:
        yield (
            f"The same call is event {event.seq} of lane {event.lane}, which has been used: "
            "the program makes it more often than it did."
        )
    elif event.lane != lane:
        yield (
            f"The same call is recorded in lane {event.lane} (event {event.seq}): "
            "the program makes it from another task, thread or tool than it did."
        )
    elif seq is not None and event.seq > seq:
        yield (
            f"The same call is recorded later in this lane (event {event.seq}): "
            f"the program leaves out what stands between, from event {seq} on."
        )
    else:
        yield f"The same call is event {event.seq} of this lane, and was passed over before."


def about_files(kept: bool) -> Iterator[str]:
    """Another file is read than was; ``kept``: the recording has what was in it."""
    yield (
        "Put it back as the program found it when it was recorded, or record again if the change "
        "is intended."
    )
    if not kept:
        yield (
            "If the recorded run has changed it itself, let the policy keep what is read, and "
            'record again: "files": {"content": true}.'
        )


def about_differences(
    differing: list[Difference], expected: Any, volatile: Iterable[str], bounds: Bounds
) -> Iterator[str]:
    """The rules that would settle the differences, in the words of a policy file.

    ``expected`` is the whole value that the paths point into; ``volatile`` are the kinds that are
    in force already.
    """
    left = differing
    for kind in (kind for kind in KINDS if kind not in set(volatile)):
        settled = [one for one in left if _is_settled(kind, one)]
        if settled:
            left = [one for one in left if one not in settled]
            where = _listed([bounds.path(one.path, _PATH_ROOM)[0] for one in settled])
            yield (
                f'{where} differs only in {kind}: "volatile": ["{kind}"] in the policy '
                "lets them differ."
            )
    rules = [rule_for(one, expected) for one in left[: _FEW + 1]]
    if rules and len(rules) <= _FEW and None not in rules:
        yield from _ignoring([rule for rule in rules if rule is not None], bounds)


def _is_settled(kind: str, one: Difference) -> bool:
    return one.kind == "changed" and settles(kind, one.path, one.expected, one.observed)


def _listed(names: list[str]) -> str:
    shown = names[:_FEW]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


class Ignore(msgspec.Struct, frozen=True):
    """One entry of ``ignore`` in a policy: a path, or the name of a header or parameter."""

    member: str
    path: Path = ()
    name: str = ""


def rule_for(one: Difference, expected: Any) -> Ignore | None:
    """What would have to be ignored; None when no rule can settle this."""
    header = _header(one, expected)
    if header is not None:
        return Ignore("headers", name=header)
    parameter = _parameter(one)
    if parameter is not None:
        return Ignore("query", name=parameter)
    if one.kind != "changed" and not isinstance(one.path[-1], str):
        return None  # an item more or less in a list
    if not one.path or (len(one.path) == 1 and one.path[0] in _ESSENCE):
        return None
    return Ignore("paths", path=one.path)


def _header(one: Difference, expected: Any) -> str | None:
    if "headers" not in one.path[:-1]:
        return None
    place = one.path.index("headers") + 1
    step = one.path[place]
    if isinstance(step, str):
        return step
    if len(one.path) == place + 1:
        pair = one.observed if one.kind == "added" else one.expected
    else:
        pair = lookup(expected, one.path[: place + 1])
    return pair_name(pair[0]) if is_pair(pair) else None


def _parameter(one: Difference) -> str | None:
    """The one parameter in which two URLs differ."""
    if one.kind != "changed" or one.path[-1:] != ("url",):
        return None
    if not (isinstance(one.expected, str) and isinstance(one.observed, str)):
        return None  # a member of a body may be called so, too
    try:
        mine, theirs = urlsplit(one.expected), urlsplit(one.observed)
    except ValueError:
        return None
    if mine._replace(query="") != theirs._replace(query=""):
        return None
    unlike = {name for name, _ in {*parse_qsl(mine.query)} ^ {*parse_qsl(theirs.query)}}
    return unlike.pop() if len(unlike) == 1 else None


def _ignoring(rules: list[Ignore], bounds: Bounds) -> Iterator[str]:
    members: dict[str, list[str]] = {}
    for rule in rules:
        text = bounds.path(rule.path, _PATH_ROOM)[0] if rule.path else bounds.name(rule.name)
        names = members.setdefault(rule.member, [])
        if text not in names:
            names.append(text)
    one = sum(map(len, members.values())) == 1
    yield (
        f"If {'it does' if one else 'these do'} not matter, let the policy say "
        f'"ignore": {json.dumps(members, ensure_ascii=False)}.'
    )
