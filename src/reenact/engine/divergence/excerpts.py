"""Redacted and truncated excerpts of requests and recorded events, for a divergence.

Requests and recorded values can have any size. Sizes are counted in bytes of ASCII JSON, the
longest form in which a value is printed, and every cut states how much is missing. The finished
divergence is searched for secrets once more. If one is found, the contents of the observed and
the recorded call are left out.
"""

from __future__ import annotations

import json
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from reenact.diff.terminal_text import common_start
from reenact.diff.values import Difference
from reenact.engine.divergence.model import (
    MAX_PATHS,
    SESSION_REMEDIES,
    Code,
    Divergence,
    Gap,
    Nearest,
    Recorded,
    Remedies,
    Seen,
)
from reenact.engine.divergence.nearest_calls import SimilarCall
from reenact.engine.request import ObservedRequest, operation_of, request_of
from reenact.format.canonical import RESERVED, canonical, digest
from reenact.format.event import ROOT_LANE, Data, Event
from reenact.format.json_path import Path, join, normalised_path
from reenact.policy.redaction.redactor import PLACEHOLDER, Redactor

__all__ = [
    "ExcerptBuilder",
    "Truncator",
    "is_withheld",
    "json_size",
    "truncate_bytes",
    "truncate_text",
]

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
"""Minimum of bytes for a note about the omitted beginning."""


def json_size(value: Any) -> int:
    """Return the size of ``value`` in bytes of ASCII JSON."""
    return len(json.dumps(value))


def truncate_text(text: str, room: int) -> str:
    """Return ``text`` within ``room``, with a note of the number of missing characters."""
    if len(text) <= room and json_size(text) <= room:
        return text
    keep = bisect_right(
        range(min(len(text), room)), room - _NOTE, key=lambda n: json_size(text[: n + 1])
    )
    return f"{text[:keep]}… ({len(text) - keep:,} more characters)"


class Truncator:
    """Bounds values that have been redacted.

    Redaction leaves the names of fields alone, and a name may itself be a token: then the
    placeholder is shown in its place.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def value(self, value: Any, room: int) -> Any:
        """Return ``value`` in at most ``room`` bytes, in a form that JSON can hold."""
        return self.fitted(value, room)[0]

    def fitted(self, value: Any, room: int) -> tuple[Any, bool]:
        """Return the shortened value, and whether something was cut."""
        for share in (room, room // 2, room // 4, room // 8):
            cut = _Cut(self, share)
            found = cut.value(value, 0)
            if json_size(found) <= room:
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
            return truncate_bytes(expected, start, room), truncate_bytes(observed, start, room)
        return self.value(expected, room), self.value(observed, room)

    def path(self, path: Path, room: int) -> tuple[str, str]:
        """Return the path in short form and in the form of RFC 9535, at most ``room`` bytes each."""
        clean = tuple(self.name(step) if isinstance(step, str) else step for step in path)
        return truncate_text(join(clean), room), truncate_text(normalised_path(clean), room)

    def name(self, name: str) -> str:
        """Return the name of a field, or a placeholder if it is a secret."""
        return PLACEHOLDER if self._redactor.survivors(name.encode()) else name

    def line(self, text: str, room: int = _NAME) -> str:
        """Return a redacted and truncated text."""
        return truncate_text(self._redactor.text(text), room)


class _Cut:
    """One pass with ``room`` bytes to spend. ``happened``: something was left out."""

    def __init__(self, bounds: Truncator, room: int) -> None:
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
            found = truncate_bytes(value, 0, self._room)
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
            self._room -= json_size(shown) + 4
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
        found = truncate_text(text, room)
        self.happened |= found is not text
        return found

    def _noted(self, note: str) -> str:
        self.happened = True
        found: str = self._spent(note)
        return found

    def _spent(self, value: Any) -> Any:
        self._room -= json_size(value)
        return value


def _is_long_number(value: Any) -> bool:
    return isinstance(value, int) and not -_LARGEST < value < _LARGEST


def _texts(expected: str, observed: str, room: int) -> tuple[str, str]:
    """Both without most of their common beginning, if they are too long for ``room``."""
    if json_size(expected) <= room and json_size(observed) <= room:
        return expected, observed
    first = common_start(expected, observed)
    before = min(_BEFORE, first)
    while json_size(expected[first - before : first]) > room // 4:
        before //= 2
    start = first - before
    note = "…" if room < _ROOMY else f"({start:,} characters) …"
    head = note if start else ""
    return head + expected[start:], head + observed[start:]


def truncate_bytes(value: bytes, start: int, room: int) -> dict[str, Any]:
    """Return bytes in recorded form, starting with ``start``. ``from`` and ``size`` mark a cut."""
    end = start + max(0, min(room, _TEXT) - 80) * 3 // 4
    shown = value[start:end]
    found: dict[str, Any] = {"$bytes": b64encode(shown).decode()}
    return found if len(shown) == len(value) else {**found, "from": start, "size": len(value)}


def _escaped(name: str) -> str:
    """Escape a field name as in a recording, so that a field ``$bytes`` is not read as bytes."""
    return f"${name}" if name.startswith("$") and name.lstrip("$") in RESERVED else name


def _first(one: bytes, other: bytes) -> int:
    return common_start(one.decode("latin-1"), other.decode("latin-1"))


# Bytes of JSON: together less than a divergence may have.
_SEEN = 8_000
_REST = 2_000
"""Fields of a recorded event that are not compared: what came back, hashes, bookkeeping."""
_GAPS = 26_000
_VALUE = 4_000
_DETAIL = 1_000
_HINT = 900
_HINTS = 5
_FLAG = 150
_FLAGS = 16
_STACK = 4_000
_NEAREST_PATHS = 5
_NEAREST_PATH = 200


_AnySeen = TypeVar("_AnySeen", bound=Seen)


class ExcerptBuilder:
    """Immutable; safe to share between threads."""

    def __init__(self, redactor: Redactor, ways: Remedies = SESSION_REMEDIES) -> None:
        self._redactor = redactor
        self._bounds = Truncator(redactor)
        self._ways = ways

    def divergence(
        self,
        code: Code,
        detail: str,
        hints: list[str],
        *,
        event: Event | None = None,
        ask: ObservedRequest | None = None,
        found: Iterable[SimilarCall] = (),
        differing: Iterable[Difference] = (),
        flags: Iterable[str] = (),
        stack: str = "",
    ) -> Divergence:
        """Of ``differing`` the first fifty are shown; of a ``stack`` its end, where it stands."""
        line = self._bounds.line
        differing = list(differing)
        lane = ask.lane if ask else event.lane if event else ROOT_LANE
        marks = [*flags, *(_data_flags(event.data) if event else ())]
        return self._checked(
            Divergence(
                code=code,
                detail=line(detail, _DETAIL),
                lane=line(lane),
                expected=self._recorded(event) if event else None,
                observed=self._asked(ask) if ask else None,
                event_seq=event.seq if event else None,
                paths=self._gaps(differing[:MAX_PATHS]),
                more_paths=max(0, len(differing) - MAX_PATHS),
                nearest=list(map(self._nearest, found)),
                hint="\n".join(self._hint(hint) for hint in hints[:_HINTS]),
                flags=[line(mark, _FLAG) for mark in marks[:_FLAGS]],
                stack=self._stack(stack) if stack else None,
            )
        )

    def _hint(self, hint: str) -> str:
        """Return the hint in one line. A path in it can contain line breaks."""
        return self._bounds.line(hint, _HINT).replace("\n", " ")

    def _recorded(self, event: Event) -> Recorded:
        """The complete envelope. The request has most of the room, because it is compared."""
        data: Data = self._redactor.redact(event.data).value
        request = request_of(event.type, data)
        shown, cut = self._bounds.fitted(request, _SEEN)
        rest = {name: item for name, item in data.items() if name not in request}
        line = self._bounds.line
        return Recorded(
            version=event.version,
            capture_id=line(event.capture_id),
            run_id=line(event.run_id),
            seq=event.seq,
            ts=event.ts,
            type=line(event.type),
            lane=line(event.lane),
            parent=event.parent,
            data={**self._bounds.value(rest, _REST), **shown},
            operation=line(operation_of(event.type, data)),
            digest=digest(request) if cut else None,
        )

    def _asked(self, ask: ObservedRequest) -> Seen:
        data = self._redactor.redact(ask.request).value
        shown, cut = self._bounds.fitted(data, _SEEN)
        return Seen(
            type=self._bounds.line(ask.type),
            operation=self._bounds.line(operation_of(ask.type, ask.request) or ask.operation),
            lane=self._bounds.line(ask.lane),
            data=shown,
            digest=digest(data) if cut else None,
        )

    def _gaps(self, differing: list[Difference]) -> list[Gap]:
        share = _GAPS // max(1, len(differing))
        path_room = max(120, min(600, share // 5))
        room = max(100, min(_VALUE, (share - 2 * path_room - 80) // 2))
        return [self._gap(one, path_room, room) for one in differing]

    def _gap(self, one: Difference, path_room: int, room: int) -> Gap:
        path, normalised = self._bounds.path(one.path, path_room)
        expected, observed = self._bounds.pair(one.expected, one.observed, room)
        return Gap(
            path=path, normalised=normalised, kind=one.kind, expected=expected, observed=observed
        )

    def _nearest(self, one: SimilarCall) -> Nearest:
        return Nearest(
            seq=one.event.seq,
            lane=self._bounds.line(one.event.lane),
            operation=self._bounds.line(one.operation),
            score=one.score,
            paths=[
                self._bounds.path(gap.path, _NEAREST_PATH)[0]
                for gap in one.differing[:_NEAREST_PATHS]
            ],
            used=one.used,
        )

    def _stack(self, stack: str) -> str:
        """Return the end of a stack, because the innermost calls are the last ones."""
        text = self._redactor.text(stack)
        if json_size(text) <= _STACK:
            return text
        while (size := json_size(text)) > _STACK:
            text = text[len(text) - len(text) * _STACK // size + 1 :]
        return f"… {text}"

    def _checked(self, divergence: Divergence) -> Divergence:
        """Return ``divergence``, without the parts that can contain a secret."""
        survivors = self._redactor.survivors(json.dumps(divergence.to_json()).encode())
        if not survivors:
            return divergence
        names = ", ".join(survivors)
        return msgspec.structs.replace(
            divergence,
            detail="What differs is not shown, because text in it looks like a secret.",
            expected=_bare(divergence.expected),
            observed=_bare(divergence.observed),
            paths=[],
            more_paths=len(divergence.paths) + divergence.more_paths,
            nearest=[],
            hint=self._ways.again,
            flags=[f"not shown: {names}"],
            stack=None,
        )


def is_withheld(data: Data) -> bool:
    """Return whether the payload was not written, because a secret survived redaction."""
    return isinstance(data.get("withheld"), dict)


def _data_flags(data: Data) -> Iterator[str]:
    if is_withheld(data):
        yield f"withheld: {data['withheld'].get('reason', '')}"
    if data.get("redacted") or PLACEHOLDER[:-3].encode() in canonical(data):
        yield "redacted"


def _bare(seen: _AnySeen | None) -> _AnySeen | None:
    """Return ``seen`` without contents."""
    if seen is None:
        return None
    nothing: Data | None = {} if isinstance(seen, Recorded) else None
    return msgspec.structs.replace(seen, operation="", data=nothing, digest=None)
