"""Putting what was asked and recorded into a :class:`Divergence`: redacted, and bounded.

At the end the whole is searched for secrets once more, and when there is one, what was asked and
recorded is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from reenact.diff.values import Difference
from reenact.engine.bounding import Bounds, cost
from reenact.engine.divergence import MOST_PATHS, Code, Divergence, Gap, Nearest, Recorded, Seen
from reenact.engine.nearest import Likeness
from reenact.engine.requests import Ask, operation_of, request_of
from reenact.engine.ways import SESSION, Ways
from reenact.format.canonical import canonical, digest
from reenact.format.event import Data, Event
from reenact.format.lane import ROOT
from reenact.policy.redaction import PLACEHOLDER, Redactor

__all__ = ["Showing", "is_withheld"]

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


class Showing:
    """Immutable; safe to share between threads."""

    def __init__(self, redactor: Redactor, ways: Ways = SESSION) -> None:
        self._redactor = redactor
        self._bounds = Bounds(redactor)
        self._ways = ways

    def divergence(
        self,
        code: Code,
        detail: str,
        hints: list[str],
        *,
        event: Event | None = None,
        ask: Ask | None = None,
        found: Iterable[Likeness] = (),
        differing: Iterable[Difference] = (),
        flags: Iterable[str] = (),
        stack: str = "",
    ) -> Divergence:
        """Of ``differing`` the first fifty are shown; of a ``stack`` its end, where it stands."""
        line = self._bounds.line
        differing = list(differing)
        lane = ask.lane if ask else event.lane if event else ROOT
        marks = [*flags, *(_data_flags(event.data) if event else ())]
        return self._checked(
            Divergence(
                code=code,
                detail=line(detail, _DETAIL),
                lane=line(lane),
                expected=self._recorded(event) if event else None,
                observed=self._asked(ask) if ask else None,
                event_seq=event.seq if event else None,
                paths=self._gaps(differing[:MOST_PATHS]),
                more_paths=max(0, len(differing) - MOST_PATHS),
                nearest=list(map(self._nearest, found)),
                hint="\n".join(self._hint(hint) for hint in hints[:_HINTS]),
                flags=[line(mark, _FLAG) for mark in marks[:_FLAGS]],
                stack=self._stack(stack) if stack else None,
            )
        )

    def _hint(self, hint: str) -> str:
        """One line: a path in it may hold anything."""
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

    def _asked(self, ask: Ask) -> Seen:
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

    def _nearest(self, one: Likeness) -> Nearest:
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
        """Its end: the innermost calls are the last ones."""
        text = self._redactor.text(stack)
        if cost(text) <= _STACK:
            return text
        while (size := cost(text)) > _STACK:
            text = text[len(text) - len(text) * _STACK // size + 1 :]
        return f"… {text}"

    def _checked(self, divergence: Divergence) -> Divergence:
        """``divergence``, or as much of it as certainly holds no secret."""
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
    """Was the payload not written, because a secret survived redaction?"""
    return isinstance(data.get("withheld"), dict)


def _data_flags(data: Data) -> Iterator[str]:
    if is_withheld(data):
        yield f"withheld: {data['withheld'].get('reason', '')}"
    if data.get("redacted") or PLACEHOLDER[:-3].encode() in canonical(data):
        yield "redacted"


def _bare(seen: _AnySeen | None) -> _AnySeen | None:
    """``seen`` without contents."""
    if seen is None:
        return None
    nothing: Data | None = {} if isinstance(seen, Recorded) else None
    return msgspec.structs.replace(seen, operation="", data=nothing, digest=None)
