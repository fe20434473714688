"""Causes that show in the values: clock and chance, paths of a machine, the way in which something is
written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from reenact.errors import ValueRefused
from reenact.format.canonical import canonical
from reenact.format.paths import Path, join, lookup
from reenact.views.causes.case import Case, Cause, Place, Sure, Way
from reenact.views.causes.likeness import changing, rewritten
from reenact.views.causes.spots import spot_of
from reenact.views.causes.ways import ignoring, letting_differ, updating

__all__ = ["find"]

_LISTED = 4


class _Words(msgspec.Struct, frozen=True):
    """How a kind is spoken of: the cause, and what to do in the program."""

    name: str
    sure: Sure
    text: str
    code: str = ""


_COVER = (
    "Have it re-enacted: put what makes it into a function of yours with @reenact.boundary, and record "
    "again."
)
_CHANGING = {
    "clock": _Words("clock", "certain", "A time in the request is another one in this run", _COVER),
    "date": _Words("clock", "likely", "A date in the request is another one in this run", _COVER),
    "duration": _Words("clock", "certain", "A duration in the request is another one", _COVER),
    "chance": _Words(
        "chance", "likely", "A random value or id in the request is another one", _COVER
    ),
    "id": _Words("chance", "possible", "An id is another one, and may be made by chance", _COVER),
    "tmp_path": _Words(
        "tmp_path",
        "certain",
        "A temporary path in the request is another one in this run",
        "Send the name of the file without its folder, or make the path in a function of yours with "
        "@reenact.boundary, and record again.",
    ),
    "address": _Words(
        "address",
        "certain",
        "The address of an object in memory is in the request: its repr() was sent",
        "Give the object a __repr__ of its own, or send what it holds.",
    ),
    "port": _Words(
        "port",
        "certain",
        "A local server has another port than it had",
        "Give the server a fixed port, or replay with the address that was recorded.",
    ),
    "home": _Words(
        "host",
        "likely",
        "A path of this machine or user is in the request",
        "Send paths that are relative to the project.",
    ),
    "version": _Words(
        "version",
        "likely",
        "A version number in the request is another one",
        "Replay with the packages that it was recorded with.",
    ),
}
_DRAWN = {"clock": ("clock", "the clock"), "chance": ("rng", "chance")}
_REWRITTEN = {
    "redaction": _Words(
        "redaction",
        "likely",
        "A secret is redacted on one side only",
        "Give the program its secret in the way in which it had it when it was recorded, or name it in "
        "a sanitizer (secretNames, declaredEnv).",
    ),
    "whitespace": _Words("whitespace", "certain", "Only spaces and line ends differ"),
    "unicode": _Words(
        "unicode",
        "certain",
        "Only the form of characters differs (Unicode normalisation, look-alike quotes)",
        "Normalise the text before it is sent: unicodedata.normalize('NFC', text).",
    ),
    "serialisation": _Words(
        "serialisation",
        "certain",
        "JSON inside a text is written another way: order of keys, spaces or escapes",
        "Write it in one way: json.dumps(value, sort_keys=True).",
    ),
    "number": _Words(
        "number",
        "certain",
        "A number is written another way, or is off by rounding",
        "Round it before it is sent.",
    ),
    "items": _Words(
        "unordered",
        "certain",
        "The same items stand in another order",
        "Sort them before they are sent. A set has another order in every process (PYTHONHASHSEED).",
    ),
}


def find(case: Case) -> Iterator[Cause]:
    """One cause for each kind of difference that values show."""
    groups: dict[str, list[Place]] = {}
    volatile: dict[str, set[str]] = {}
    lists = _reordered(case)
    for place in case.places:
        above = next((one for one in lists if place.path[: len(one)] == one), None)
        if above is not None:
            groups.setdefault("items", []).append(place)
        elif place.gap.kind == "changed":
            for kind, policy in _kinds(place).items():
                groups.setdefault(kind, []).append(place)
                volatile.setdefault(kind, set()).update(() if policy is None else (policy,))
    for kind, places in groups.items():
        words = _REWRITTEN.get(kind) or _CHANGING[kind]
        rules = volatile.get(kind, set())
        yield _cause(case, words, places, rules, lists if kind == "items" else [])


def _kinds(place: Place) -> dict[str, str | None]:
    one, other = place.gap.expected, place.gap.observed
    name = rewritten(one, other)
    return {name: None} if name else changing(place.path, one, other)


def _cause(
    case: Case, words: _Words, places: list[Place], rules: set[str], lists: list[Path]
) -> Cause:
    spots = list(dict.fromkeys(spot_of(case, place).words for place in places))
    where = ", ".join(spots[:_LISTED]) + (" and elsewhere" if len(spots) > _LISTED else "")
    return Cause(
        name=words.name,
        sure=words.sure,
        text=f"{words.text}: {where}.",
        evidence=[*_evidence(case, words)],
        ways=[*_ways(case, words, places, rules, lists)],
        explains=[place.gap.path for place in places],
    )


def _evidence(case: Case, words: _Words) -> Iterator[str]:
    if words.name not in _DRAWN or not case.then:
        return
    source, said = _DRAWN[words.name]
    if source in case.draws:
        yield (
            f"What the program's own modules draw from {said} is re-enacted, so this comes from where no "
            "boundary is. `reenact run --explain-boundaries` shows what is covered."
        )
    else:
        yield f"The recording has no readings of {said}: in its replay that is the real one."


def _ways(
    case: Case, words: _Words, places: list[Place], rules: set[str], lists: list[Path]
) -> Iterator[Way]:
    left = places
    if rules:
        yield letting_differ(rules, "Let them differ, wherever they stand.")
        left = [place for place in places if None in _kinds(place).values()]
    if lists:
        paths = [join(path) for path in lists]
        yield Way(
            text="If neither the order nor what is in there matters, leave the list out.",
            policy={"ignore": {"paths": paths}},
        )
    elif left:
        only = ignoring(case, left, _caution(left))
        if only is not None:
            yield only
    if words.name in _DRAWN and case.then and _DRAWN[words.name][0] not in case.draws:
        yield Way(
            text="Record the whole run: reenact run --capture DIR -- CMD. Then it is re-enacted."
        )
    elif words.code:
        yield Way(text=words.code)
    if words.name in ("whitespace", "unicode", "serialisation", "number", "unordered", "version"):
        yield updating(case)


def _caution(places: list[Place]) -> str:
    long = any(
        isinstance(place.gap.expected, str) and " " in place.gap.expected for place in places
    )
    what = "all of the text there" if long else "what stands there"
    return f"If {what} does not matter, leave it out."


def _reordered(case: Case) -> list[Path]:
    """The lists that hold the same on both sides, in another order; the outermost of them."""
    found: list[Path] = []
    for place in case.places:
        for end in (at for at, step in enumerate(place.path) if isinstance(step, int)):
            path = place.path[:end]
            if any(path[: len(one)] == one for one in found):
                break
            if path and _is_reordered(_at(case.recorded, path), _at(case.asked, path)):
                found.append(path)
                break
    return found


def _is_reordered(one: Any, other: Any) -> bool:
    if not isinstance(one, list) or not isinstance(other, list) or len(one) != len(other):
        return False
    try:
        mine, theirs = [*map(canonical, one)], [*map(canonical, other)]
    except ValueRefused:  # a report that somebody has edited
        return False
    # What is cut says so in its last item, on both sides in the same words.
    cut = any(b"more items)" in item for item in (mine[-1:] + theirs[-1:]))
    return not cut and mine != theirs and Counter(mine) == Counter(theirs)


def _at(whole: Any, path: Path) -> Any:
    try:
        return lookup(whole, path)
    except (LookupError, TypeError):
        return None
