"""Causes visible in values: clock readings, random values, machine paths and formatting."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from reenact.engine.divergence.causes import Cause, Remedy, Sure
from reenact.engine.divergence.model import text_of_bytes
from reenact.errors import ValueRefused
from reenact.format.canonical import canonical
from reenact.format.json_path import Path, join, lookup
from reenact.policy.volatile import KINDS as VOLATILE
from reenact.policy.volatile import Volatile, settles
from reenact.views.explain.case import (
    Case,
    DifferingPlace,
    ignore_remedy,
    letting_differ,
    locate,
    update_remedy,
)

__all__ = [
    "changing",
    "find_value_causes",
    "rewritten",
]

_LISTED = 4


class _Words(msgspec.Struct, frozen=True):
    """Texts about a kind of value: the cause, and the remedy in the program."""

    name: str
    sure: Sure
    text: str
    code: str = ""


_COVER = (
    "Have it re-enacted: put what makes it into a function of yours with @reenact.boundary, and record "
    "again."
)
_CHANGING = {
    "clock": _Words("clock", "certain", "A time in the request differs in this run", _COVER),
    "date": _Words("clock", "likely", "A date in the request differs in this run", _COVER),
    "duration": _Words("clock", "certain", "A duration in the request has changed", _COVER),
    "chance": _Words("chance", "likely", "A random value or id in the request has changed", _COVER),
    "id": _Words("chance", "possible", "An id has changed, and is possibly random", _COVER),
    "tmp_path": _Words(
        "tmp_path",
        "certain",
        "A temporary path in the request differs in this run",
        "Send the name of the file without its folder, or make the path in a function of yours with "
        "@reenact.boundary, and record again.",
    ),
    "address": _Words(
        "address",
        "certain",
        "The address of an object in memory is in the request: its repr() was sent",
        "Define __repr__ for the object, or send its content.",
    ),
    "port": _Words(
        "port",
        "certain",
        "The port of a local server has changed",
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
        "A version number in the request has changed",
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
        "The order of the items has changed",
        "Sort them before they are sent. The order of a set differs in every process (PYTHONHASHSEED).",
    ),
}


def find_value_causes(case: Case) -> Iterator[Cause]:
    """Yield one cause for each kind of difference between values."""
    groups: dict[str, list[DifferingPlace]] = {}
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


def _kinds(place: DifferingPlace) -> dict[str, str | None]:
    one, other = place.gap.expected, place.gap.observed
    name = rewritten(one, other)
    return {name: None} if name else changing(place.path, one, other)


def _cause(
    case: Case, words: _Words, places: list[DifferingPlace], rules: set[str], lists: list[Path]
) -> Cause:
    spots = list(dict.fromkeys(locate(case, place).words for place in places))
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
            f"Values that the program's own modules get from {said} are re-enacted, so this value comes "
            "from code without a boundary. `reenact run --explain-boundaries` shows what is covered."
        )
    else:
        yield f"The recording has no values of {said}, so its replay uses live values."


def _ways(
    case: Case, words: _Words, places: list[DifferingPlace], rules: set[str], lists: list[Path]
) -> Iterator[Remedy]:
    left = places
    if rules:
        yield letting_differ(rules, "Let them differ, wherever they stand.")
        left = [place for place in places if None in _kinds(place).values()]
    if lists:
        paths = [join(path) for path in lists]
        yield Remedy(
            text="If neither the order nor what is in there matters, leave the list out.",
            policy={"ignore": {"paths": paths}},
        )
    elif left:
        only = ignore_remedy(case, left, _caution(left))
        if only is not None:
            yield only
    if words.name in _DRAWN and case.then and _DRAWN[words.name][0] not in case.draws:
        yield Remedy(
            text="Record the complete run: reenact run --capture DIR -- CMD. Then it is re-enacted."
        )
    elif words.code:
        yield Remedy(text=words.code)
    if words.name in ("whitespace", "unicode", "serialisation", "number", "unordered", "version"):
        yield update_remedy(case)


def _caution(places: list[DifferingPlace]) -> str:
    long = any(
        isinstance(place.gap.expected, str) and " " in place.gap.expected for place in places
    )
    what = "all of the text there" if long else "what stands there"
    return f"If {what} does not matter, leave it out."


def _reordered(case: Case) -> list[Path]:
    """Return the outermost lists with equal items in a different order."""
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
    except ValueRefused:  # an edited report
        return False
    # A truncated value ends with the same notice on both sides.
    cut = any(b"more items)" in item for item in (mine[-1:] + theirs[-1:]))
    return not cut and mine != theirs and Counter(mine) == Counter(theirs)


def _at(whole: Any, path: Path) -> Any:
    try:
        return lookup(whole, path)
    except (LookupError, TypeError):
        return None


_MONTH = r"(?:Jan|Feb|Mar|Apr|May|June?|July?|Aug|Sept?|Oct|Nov|Dec)[a-z]*"
_DAY = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_PATTERNS = {
    "tmp_path": r"(?:/private)?(?:/var/folders/[\w/+.-]+|/(?:var/)?tmp/[\w.+-]+)"
    r"|\w:\\Users\\[^\\\s]+\\AppData\\Local\\Temp\\[\w.-]+",
    "date": rf"(?<!\d)\d{{4}}[-/]\d\d[-/]\d\d(?!\d)|(?:{_DAY},? )?{_MONTH}\.? \d{{1,2}}(?:, \d{{4}})?"
    rf"|(?:{_DAY},? )?\d{{1,2}}\.? {_MONTH}\.?(?: \d{{4}})?|\b{_DAY}\b",
    "clock": r"(?<![\d:])\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp]\.?[Mm]\b)?(?![\d:])"
    r"|(?<![\d.])1[5-9]\d{8}(?:\.\d+|\d{3}|\d{6}|\d{9})?(?!\d)",
    "address": r"\b0x[0-9a-fA-F]{6,16}\b",
    "port": r"(?:localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0):\d{2,5}(?!\d)",
    "home": r"(?:/home|/Users|\w:\\Users)[/\\][\w.-]+",
    "version": r"(?<=[/v])\d+(?:\.\w+)+|(?<![\d.])\d+\.\d+\.\d+[\w.-]*|(?<=[A-Za-z] )\d+\.\d+\.\d+\w*",
    "chance": r"(?<![0-9A-Za-z])(?=[0-9A-Za-z]*\d[0-9A-Za-z]*\d)(?=[0-9A-Za-z]*[A-Za-z])[0-9A-Za-z]{8,}"
    r"(?![0-9A-Za-z])",
}
_COMPILED = {name: re.compile(pattern) for name, pattern in _PATTERNS.items()}
_IDENTIFIER = re.compile(r"(?:.*[_.-])?[Ii][Dd]|.*[a-z0-9]I[dD]|(?i:.*(?:nonce|salt|uuid))")
_WORD = re.compile(r"[\w.:+/=-]{4,80}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_POLICY = {
    "timestamps": "clock",
    "uuids": "chance",
    "durations": "duration",
    "tmp_paths": "tmp_path",
}
_LONGEST = 100_000
_CLOSE = 1e-6
_EPOCH = (1.2e9, 4e9)


def rewritten(one: Any, other: Any) -> str:
    """Return the only kind of difference, or an empty string.

    It is ``redaction``, ``whitespace``, ``unicode``, ``serialisation``, ``number`` or ``items``.
    """
    one, other = _text(one), _text(other)
    if _is_number(one) and _is_number(other):
        return "number" if _is_close(one, other) else ""
    if isinstance(one, str) and isinstance(other, str):
        if len(one) + len(other) > _LONGEST:
            return ""
        return next((name for name, same in _WAYS.items() if same(one, other)), "")
    if isinstance(one, str) != isinstance(other, str) and _said(one) == _said(other):
        return "number" if _is_number(one) or _is_number(other) else "serialisation"
    return ""


def changing(path: Path, one: Any, other: Any) -> dict[str, str | None]:
    """Return the kinds of changing values that explain the complete difference, or an empty dict.

    Each kind has the volatile kind of a policy that covers it, or None.
    """
    one, other = _text(one), _text(other)
    for name in VOLATILE:
        if _settles(name, path, one, other):
            return {_POLICY[name]: name}
    if _is_number(one) and _is_number(other):
        if _is_moment(one) and _is_moment(other):
            return {"clock": None}
        return {"id": None} if _is_identifier(path) and min(one, other) > 99 else {}
    if not isinstance(one, str) or not isinstance(other, str) or len(one) + len(other) > _LONGEST:
        return {}
    found = _fewest(one, other)
    if not found and _is_identifier(path) and _WORD.fullmatch(one) and _WORD.fullmatch(other):
        return {"id": None}
    return found


_Strip = Callable[[str], str]


def _fewest(one: str, other: str) -> dict[str, str | None]:
    """Return a minimal set of kinds. The loose ones at the end of the table are removed first."""
    needed: dict[tuple[str, str | None], _Strip] = {}
    for name in VOLATILE:
        needed[_POLICY[name], name] = Volatile([name]).strip
    for name, pattern in _COMPILED.items():
        needed[name, None] = _replacing(name, pattern)
    if not _same(needed, one, other):
        return {}
    for loosest in reversed([*needed]):
        fewer = {name: strip for name, strip in needed.items() if name != loosest}
        if fewer and _same(fewer, one, other):
            needed = fewer
    found: dict[str, str | None] = {}
    for kind, policy in needed:
        # A volatile kind that covers only a part of the value is not a remedy.
        found[kind] = policy if kind not in found else None
    return found


def _replacing(name: str, pattern: re.Pattern[str]) -> _Strip:
    def constant(match: re.Match[str]) -> str:
        # A random text has the same length each time.
        return f"<{name} {len(match[0])}>" if name == "chance" else f"<{name}>"

    return lambda text: pattern.sub(constant, text)


def _same(strips: dict[tuple[str, str | None], _Strip], one: str, other: str) -> bool:
    for strip in strips.values():
        one, other = strip(one), strip(other)
    return one == other


def _settles(name: str, path: Path, one: Any, other: Any) -> bool:
    try:
        return settles(name, path, one, other)
    except ValueRefused:
        return False


def _text(value: Any) -> Any:
    """Return the text of bytes, which are represented as an object. Other values are unchanged."""
    text = text_of_bytes(value)
    return value if text is None else text


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_close(one: Any, other: Any) -> bool:
    """Return whether two numbers are nearly equal. Different timestamps are never close."""
    if (isinstance(one, int) and isinstance(other, int)) or (_is_moment(one) and one != other):
        return False
    return math.isclose(one, other, rel_tol=_CLOSE, abs_tol=1e-12)


def _is_moment(value: float) -> bool:
    low, high = _EPOCH
    return any(low <= value / unit <= high for unit in (1, 1e3, 1e6, 1e9))


def _is_identifier(path: Path) -> bool:
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    return _IDENTIFIER.fullmatch(name) is not None and name.lower() != "model_id"


def _said(value: Any) -> Any:
    """Return the parsed value of a JSON text, or the text itself."""
    if not isinstance(value, str):
        return canonical(value)
    try:
        return canonical(json.loads(value))
    except (ValueError, ValueRefused, RecursionError):
        return value.encode("utf-8", "surrogatepass")


def _is_redaction(one: str, other: str) -> bool:
    return ("***REDACTED" in one) != ("***REDACTED" in other)


def _is_whitespace(one: str, other: str) -> bool:
    return "".join(one.split()) == "".join(other.split())


def _is_unicode(one: str, other: str) -> bool:
    folded = (unicodedata.normalize("NFKC", text).replace("’", "'") for text in (one, other))
    return len({*folded}) == 1


def _is_serialisation(one: str, other: str) -> bool:
    if not all(text.lstrip()[:1] in ("{", "[") for text in (one, other)):
        return False
    return bool(_said(one) == _said(other))


def _is_number_text(one: str, other: str) -> bool:
    """Return whether only the notation of numbers differs: 0.1 and 0.10000000000000001."""
    mine, theirs = _NUMBER.findall(one), _NUMBER.findall(other)
    if len(mine) != len(theirs) or _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    return all(
        left == right or ("." in left + right and _is_close(float(left), float(right)))
        for left, right in zip(mine, theirs, strict=True)
    )


def _is_order(one: str, other: str) -> bool:
    """Return whether two texts list the same items in a different order."""
    for apart in ("\n", ";", "|", ","):
        if apart in one and apart in other:
            mine, theirs = (sorted(map(_bare, text.split(apart))) for text in (one, other))
            return mine == theirs
    return False


def _bare(item: str) -> str:
    return item.strip(" \t\r[](){}'\"")


_WAYS: dict[str, Callable[[str, str], bool]] = {
    "redaction": _is_redaction,
    "whitespace": _is_whitespace,
    "unicode": _is_unicode,
    "serialisation": _is_serialisation,
    "number": _is_number_text,
    "items": _is_order,
}
