"""Volatile values that change in every run: timestamps, uuids, durations, pytest's folders.

A policy names the kinds that do not count. They are replaced with constants before two requests are
compared. Texts are searched everywhere, including JSON inside a string. Numbers only count under a
descriptive name (``tookMs``, ``startedAt``, ``ts``).

A date without a time is not a timestamp, because versions and model names contain dates. A uuid has
dashes, because 32 hex digits alone can be a significant digest. A folder that pytest created for a
test (``tmp_path``) has the number of the run in its name, and its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from reenact.errors import PolicyInvalid
from reenact.format.canonical import canonical
from reenact.format.json_path import Path
from reenact.policy.noise import Taken
from reenact.policy.patterns import lazy_pattern
from reenact.policy.redaction.structure import with_items

__all__ = ["KINDS", "Volatile", "settles"]

_COLON = r"(?::|%3[Aa])"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_RFC_2822 = (
    rf" {_MONTH} [0-9]{{4}} [0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}})?"
    r"(?: (?:GMT|UTC|[+-][0-9]{4}))?(?![0-9A-Za-z])"
)
_UNIT = r"(?:ns|us|µs|μs|ms|s|secs?|(?:(?:nano|micro|milli)?seconds?))"

# A required text of each match, and the pattern. A pattern begins with consumed characters and
# looks back afterwards, so that the engine can skip to the next possible match.
_TIMESTAMPS = (
    (
        "-",
        r"[0-9](?<![0-9].)[0-9]{3}-[0-9]{2}-[0-9]{2}(?:[Tt ]|%20|\+)"
        rf"[0-9]{{2}}{_COLON}[0-9]{{2}}(?:{_COLON}[0-9]{{2}}(?:[.,][0-9]{{1,9}})?)?"
        rf"(?:[Zz]|(?:[+-]|%2[Bb])[0-9]{{2}}{_COLON}?[0-9]{{2}})?(?![0-9])",
    ),
    (":", rf"{_DAY}(?<![0-9A-Za-z]...), [0-9]{{1,2}}{_RFC_2822}"),
    (":", rf"[0-9](?<![0-9A-Za-z].)[0-9]?{_RFC_2822}"),
)
_UUIDS = (
    (
        "-",
        r"[0-9A-Fa-f](?<![0-9A-Za-z].)[0-9A-Fa-f]{7}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}"
        r"-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])",
    ),
)
_DURATIONS = (
    ("s", rf"[0-9](?<![\w.:-].)[0-9]{{0,17}}(?:\.[0-9]{{1,18}})? ?{_UNIT}(?!\w)"),
    (":", r"[0-9](?<![\w.:-].):[0-9]{2}:[0-9]{2}\.[0-9]{1,9}(?!\w)"),
    (
        "P",
        r"P(?<![\w.:-].)(?:[0-9]{1,9}D)?T(?=[0-9])(?:[0-9]{1,9}H)?(?:[0-9]{1,9}M)?"
        r"(?:[0-9]{1,9}(?:\.[0-9]{1,9})?S)?(?!\w)",
    ),
)
_TMP_PATHS = (
    (
        "/pytest-of-",
        r"/(?<![\w.+@~-].)(?:[\w.+@~-]+/)*pytest-of-[\w.+@~-]+/pytest-[0-9]+(?:/popen-gw[0-9]+)?"
        r"(?:/\w+)?",
    ),
)
_MOMENT_NAME = (
    r"(?:ts|timestamp|(?:started|fetched|created|updated|finished|ended|completed|sent|received)"
    r"[_-]?at)(?:[_-]?(?:ns|us|ms))?"
)
_SPAN_NAME = (
    r"(?:duration|elapsed|took|latency)"
    r"(?:[_-]?(?:ns|us|ms|s|secs?|seconds?|millis|milliseconds?|time))?"
)


class _Kind(msgspec.Struct, frozen=True):
    """``texts`` are replaced by ``constant``, a number under ``field`` by 0.

    ``named`` finds such a number in JSON text, however often its quotes are escaped.
    """

    name: str
    constant: str
    texts: tuple[tuple[str, re.Pattern[str]], ...]
    field: re.Pattern[str] | None = None
    named: re.Pattern[str] | None = None


def _kind(name: str, texts: tuple[tuple[str, str], ...], field: str | None = None) -> _Kind:
    constant = f"<{name.removesuffix('s')}>"
    compiled = tuple((needs, lazy_pattern(text, re.DOTALL)) for needs, text in texts)
    if field is None:
        return _Kind(name, constant, compiled)
    # A whole number, up to what ends it in JSON: `5 ms` is a text and handled as one.
    number = r"-?[0-9][0-9.eE+-]*(?=\s{0,8}(?:[,}\]]|\Z))"
    named = rf"([\"'])({field})(\\*[\"']\s{{0,8}}:\s{{0,8}}){number}"
    return _Kind(
        name,
        constant,
        compiled,
        lazy_pattern(field, re.IGNORECASE | re.ASCII),
        lazy_pattern(named, re.IGNORECASE | re.ASCII),
    )


_KINDS = (
    _kind("timestamps", _TIMESTAMPS, _MOMENT_NAME),
    _kind("uuids", _UUIDS),
    _kind("durations", _DURATIONS, _SPAN_NAME),
    _kind("tmp_paths", _TMP_PATHS),
)
KINDS = tuple(kind.name for kind in _KINDS)
"""The kinds there are, in the order in which they are replaced."""


class Volatile:
    """Replacement of volatile values. The order of ``names`` does not matter.

    Raises :class:`PolicyInvalid` for an unknown kind.
    """

    def __init__(self, names: Iterable[str]) -> None:
        wanted = set(names)
        unknown = sorted(wanted - set(KINDS))
        if unknown:
            raise PolicyInvalid(
                f"unknown volatile kind {unknown[0]!r}",
                place="$.volatile",
                hint=f"one of {', '.join(KINDS)}",
            )
        self._kinds = tuple(kind for kind in _KINDS if kind.name in wanted)

    def strip(self, value: Any, taken: Taken | None = None) -> Any:
        """``value`` with constants in place of what is volatile; what did not change is shared.

        ``taken`` grows by what was replaced.
        """
        for kind in self._kinds:
            value = _strip(kind, value, (), taken)
        return value


def settles(name: str, path: Path, one: Any, other: Any) -> bool:
    """Would the kind ``name`` make these two values, which stand at ``path``, the same?"""
    (kind,) = (kind for kind in _KINDS if kind.name == name)
    left, right = (_strip(kind, value, path, None) for value in (one, other))
    return canonical(left) == canonical(right)


def _strip(kind: _Kind, value: Any, path: Path, taken: Taken | None) -> Any:
    if isinstance(value, str):
        return _strip_text(kind, value, path, taken)
    if isinstance(value, (dict, list, tuple)):
        return with_items(value, lambda key, item: _strip(kind, item, (*path, key), taken))
    if isinstance(value, bytes):
        return _strip_bytes(kind, value, path, taken)
    if kind.field is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if not value or kind.field.fullmatch(_field(path)) is None:
        return value
    _note(taken, kind, path, value)
    return 0


def _field(path: Path) -> str:
    """The name of the member; an item of a list has the name of the list."""
    return next((step for step in reversed(path) if isinstance(step, str)), "")


def _strip_bytes(kind: _Kind, value: bytes, path: Path, taken: Taken | None) -> bytes:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return value
    new = _strip_text(kind, text, path, taken)
    return value if new is text else new.encode()


def _strip_text(kind: _Kind, text: str, path: Path, taken: Taken | None) -> str:
    def constant(match: re.Match[str]) -> str:
        _note(taken, kind, (*path, match.start()), match[0])
        return kind.constant

    def zero(match: re.Match[str]) -> str:
        _note(taken, kind, (*path, match.start()), match[0])
        return f"{match[1]}{match[2]}{match[3]}0"

    new = text
    for needs, pattern in kind.texts:
        if needs in new:
            new = pattern.sub(constant, new)
    if kind.named is not None and ":" in new:
        new = kind.named.sub(zero, new)
    return text if new == text else new


def _note(taken: Taken | None, kind: _Kind, place: Path, found: Any) -> None:
    if taken is not None:
        taken.append((f"volatile {kind.name}", place, canonical(found)))
