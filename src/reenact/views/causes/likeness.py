"""How two values are alike although they differ: written another way, or made of what is another one in
every run."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Any

from reenact.errors import ValueRefused
from reenact.format.canonical import canonical
from reenact.format.paths import Path
from reenact.policy.volatile import KINDS as VOLATILE
from reenact.policy.volatile import Volatile, settles

__all__ = ["changing", "rewritten"]

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
    """``redaction``, ``whitespace``, ``unicode``, ``serialisation``, ``number`` or ``items`` where that is
    all in which they differ; else nothing."""
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
    """The kinds of things that are others in every run, without which the two are the same; and for each
    the volatile kind of a policy that covers it, or None. Empty where that does not make them the same.
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
    """As few kinds as will do: those at the end of the table, which are loose, are left out first."""
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
        # Where a volatile kind covers only a part of it, it does not settle it.
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
    """Bytes are shown as an object; what is text in them is text."""
    raw = value.get("$bytes") if isinstance(value, dict) else None
    if not isinstance(raw, str):
        return value
    try:
        return b64decode(raw, validate=True).decode()
    except (Base64Error, ValueError):
        return value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_close(one: Any, other: Any) -> bool:
    """Moments are close to each other, and not the same."""
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
    """What JSON text says; a text that is none says itself."""
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
    """The same but for how numbers are written: 0.1 and 0.10000000000000001."""
    mine, theirs = _NUMBER.findall(one), _NUMBER.findall(other)
    if len(mine) != len(theirs) or _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    return all(
        left == right or ("." in left + right and _is_close(float(left), float(right)))
        for left, right in zip(mine, theirs, strict=True)
    )


def _is_order(one: str, other: str) -> bool:
    """The same items of a list in a text, in another order."""
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
