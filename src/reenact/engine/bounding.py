"""Making anything small enough to show: nothing that is asked or recorded has a known size.

Sizes are counted in bytes of ASCII JSON, the longest form a value is ever printed in. What is cut
says how much is missing.
"""

from __future__ import annotations

import json
from base64 import b64encode
from bisect import bisect_right
from typing import Any

from reenact.diff.text import common_start
from reenact.diff.values import normalised
from reenact.format.canonical import RESERVED
from reenact.format.paths import Path, join
from reenact.policy.redaction import PLACEHOLDER, Redactor

__all__ = ["Bounds", "cost", "cut_text", "raw"]

_TEXT = 2_000
_NAME = 200
_ITEMS = 50
_DEEPEST = 16
_DIGITS = 40
_LARGEST = 10**_DIGITS
_NOTE = 48
_SMALLEST = 24
_BEFORE = 200
"""Characters shown before the first difference of two long texts."""
_ROOMY = 400
"""With less room it is not said how much of the beginning is left out."""


def cost(value: Any) -> int:
    """The size of ``value`` in bytes of ASCII JSON."""
    return len(json.dumps(value))


def cut_text(text: str, room: int) -> str:
    """``text`` within ``room``, with a note of how many characters are missing."""
    if len(text) <= room and cost(text) <= room:
        return text
    keep = bisect_right(
        range(min(len(text), room)), room - _NOTE, key=lambda n: cost(text[: n + 1])
    )
    return f"{text[:keep]}… ({len(text) - keep:,} more characters)"


class Bounds:
    """Bounds values that have been redacted.

    Redaction leaves the names of fields alone, and a name may itself be a token: then the
    placeholder is shown in its place.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def value(self, value: Any, room: int) -> Any:
        """``value`` in at most ``room`` bytes, as JSON can hold it."""
        return self.fitted(value, room)[0]

    def fitted(self, value: Any, room: int) -> tuple[Any, bool]:
        """The same, and whether something was cut."""
        for share in (room, room // 2, room // 4, room // 8):
            cut = _Cut(self, share)
            found = cut.value(value, 0)
            if cost(found) <= room:
                return found, cut.happened
        return "…", True

    def pair(self, expected: Any, observed: Any, room: int) -> tuple[Any, Any]:
        """Both in at most ``room`` bytes each; of long ones the part where they begin to differ."""
        if _is_long_number(expected) and _is_long_number(observed):
            expected, observed = str(expected), str(observed)
        if isinstance(expected, str) and isinstance(observed, str):
            expected, observed = _texts(expected, observed, min(room, _TEXT))
        elif isinstance(expected, bytes) and isinstance(observed, bytes):
            start = max(0, _first(expected, observed) - min(_BEFORE, room // 8))
            return raw(expected, start, room), raw(observed, start, room)
        return self.value(expected, room), self.value(observed, room)

    def path(self, path: Path, room: int) -> tuple[str, str]:
        """The path as people write it and as RFC 9535 does, in at most ``room`` bytes each."""
        clean = tuple(self.name(step) if isinstance(step, str) else step for step in path)
        return cut_text(join(clean), room), cut_text(normalised(clean), room)

    def name(self, name: str) -> str:
        """The name of a field, unless it is a secret."""
        return PLACEHOLDER if self._redactor.survivors(name.encode()) else name

    def line(self, text: str, room: int = _NAME) -> str:
        """A text of ours or of the program's, redacted."""
        return cut_text(self._redactor.text(text), room)


class _Cut:
    """One pass with ``room`` bytes to spend. ``happened``: something was left out."""

    def __init__(self, bounds: Bounds, room: int) -> None:
        self._bounds = bounds
        self._room = room
        self.happened = False

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, (dict, list, tuple)):
            if depth == _DEEPEST and value:
                return self._noted("… (nested deeper)")
            self._room -= 2
            if isinstance(value, dict):
                return self._object(value, depth)
            return self._array(value, depth)
        return self._spent(self._leaf(value))

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, bytes):
            found = raw(value, 0, self._room)
            self.happened |= "size" in found
            return found
        if isinstance(value, str):
            return self._text(value, max(_SMALLEST, min(self._room, _TEXT)))
        if _is_long_number(value):
            digits = str(value)
            self.happened = True
            return f"{digits[:_DIGITS]}… ({len(digits):,} digits)"
        return value

    def _object(self, value: dict[str, Any], depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in sorted(value):
            if len(found) == _ITEMS or self._room < _SMALLEST:
                found["…"] = self._noted(f"{len(value) - len(found):,} more fields")
                break
            shown = self._text(_escaped(self._bounds.name(name)), min(_NAME, self._room))
            self._room -= cost(shown) + 4
            found[shown] = self.value(value[name], depth + 1)
        return found

    def _array(self, value: Any, depth: int) -> list[Any]:
        found: list[Any] = []
        for item in value:
            if len(found) == _ITEMS or self._room < _SMALLEST:
                found.append(self._noted(f"… ({len(value) - len(found):,} more items)"))
                break
            found.append(self.value(item, depth + 1))
            self._room -= 2
        return found

    def _text(self, text: str, room: int) -> str:
        found = cut_text(text, room)
        self.happened |= found is not text
        return found

    def _noted(self, note: str) -> str:
        self.happened = True
        found: str = self._spent(note)
        return found

    def _spent(self, value: Any) -> Any:
        self._room -= cost(value)
        return value


def _is_long_number(value: Any) -> bool:
    return isinstance(value, int) and not -_LARGEST < value < _LARGEST


def _texts(expected: str, observed: str, room: int) -> tuple[str, str]:
    """Both without most of their common beginning, if they are too long for ``room``."""
    if cost(expected) <= room and cost(observed) <= room:
        return expected, observed
    first = common_start(expected, observed)
    before = min(_BEFORE, first)
    while cost(expected[first - before : first]) > room // 4:
        before //= 2
    start = first - before
    note = "…" if room < _ROOMY else f"({start:,} characters) …"
    head = note if start else ""
    return head + expected[start:], head + observed[start:]


def raw(value: bytes, start: int, room: int) -> dict[str, Any]:
    """As in a recording, from byte ``start`` on; what is cut off shows in ``from`` and ``size``."""
    end = start + max(0, min(room, _TEXT) - 80) * 3 // 4
    shown = value[start:end]
    found: dict[str, Any] = {"$bytes": b64encode(shown).decode()}
    return found if len(shown) == len(value) else {**found, "from": start, "size": len(value)}


def _escaped(name: str) -> str:
    """As in a recording: what the program calls ``$bytes`` is not mistaken for bytes."""
    return f"${name}" if name.startswith("$") and name.lstrip("$") in RESERVED else name


def _first(one: bytes, other: bytes) -> int:
    return common_start(one.decode("latin-1"), other.decode("latin-1"))
