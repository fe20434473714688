"""Outcomes of replayed recordings, grouped by cause."""

from __future__ import annotations

import json
import os
import re
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from reenact.diff.terminal_text import around_difference
from reenact.engine.divergence.model import Divergence
from reenact.engine.divergence.text_renderer import render_divergence
from reenact.errors import ReenactError
from reenact.runs.remote.location import Location, RemoteRecording

__all__ = [
    "BAD",
    "Group",
    "Key",
    "Outcome",
    "Status",
    "Tally",
    "as_line",
    "cause_of",
    "diverged",
    "groups",
    "name_of",
    "unreadable",
]

Status = Literal["ok", "diverged", "failed", "unreadable", "timeout"]

BAD: tuple[Status, ...] = ("diverged", "failed", "unreadable", "timeout")
"""Statuses of failures.

``failed`` means no divergence, but a different exit code or output, an exception, or a lost
process.
"""

_SHORT = 60
_INDEX = re.compile(r"\[\d+\]")


class Outcome(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Outcome of one replay.

    ``cause`` is equal for outcomes that failed in the same way, and empty for success.
    """

    recording: str
    status: Status
    seconds: float = 0.0
    served: int = 0
    cause: str = ""
    detail: str = ""
    """The divergence as text, or a description of the failure."""
    gist: str = ""
    """First difference of a divergence, shortened. Empty for other outcomes."""
    divergence: dict[str, Any] | None = None
    paths: tuple[str, ...] = ()
    """Kind and path of each difference, such as ``changed $.request.body.amount``.

    List positions are replaced by ``*``. A final ``more`` means that there are further differences.
    """
    known: bool = False
    """True if the baseline contains this failure."""
    away: bool = False
    """True if the download failed for a reason outside the recording."""

    def __post_init__(self) -> None:
        self.cause, self.detail = _text(self.cause), _text(self.detail)
        self.gist = _text(self.gist)

    @property
    def counted_as(self) -> str:
        """Return the status, or ``known`` for a known failure."""
        return "known" if self.known else self.status

    @property
    def is_bad(self) -> bool:
        """Return True for a failure that is not in the baseline."""
        return self.status in BAD and not self.known


def _text(text: str) -> str:
    """Return ``text`` with lone surrogates escaped, so that it can be encoded."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def as_line(outcome: Outcome) -> bytes:
    """Encode an outcome as one line of JSON."""
    try:
        return msgspec.json.encode(outcome) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate in a request
        return msgspec.json.encode(msgspec.structs.replace(outcome, divergence=None)) + b"\n"


def name_of(recording: Location) -> str:
    """Return the name of a recording in reports. Invalid bytes are escaped."""
    if isinstance(recording, RemoteRecording):
        return recording.name
    return os.fsencode(recording).decode("utf-8", "backslashreplace")


def unreadable(recording: Location, error: ReenactError) -> Outcome:
    """Return the outcome of a recording that cannot be replayed."""
    detail = f"{error.message}\n{error.hint}".rstrip()
    cause = type(error).__name__
    name = name_of(recording)
    return Outcome(recording=name, status="unreadable", cause=cause, detail=detail)


def diverged(recording: Path, divergence: Divergence, served: int = 0) -> Outcome:
    """Return the outcome of a divergence."""
    return Outcome(
        recording=name_of(recording),
        status="diverged",
        served=served,
        cause=cause_of(divergence),
        detail=render_divergence(divergence),
        gist=_gist(divergence),
        divergence=divergence.to_json(),
        paths=_paths(divergence),
    )


def _paths(divergence: Divergence) -> tuple[str, ...]:
    """Return the kind and path of each difference, sorted and without duplicates."""
    found = {f"{gap.kind} {_INDEX.sub('[*]', gap.path)}" for gap in divergence.paths}
    return tuple(sorted(found)) + (("more",) if divergence.more_paths else ())


def _gist(divergence: Divergence) -> str:
    if not divergence.paths:
        return ""
    gap = divergence.paths[0]
    one, other = around_difference(_short(gap.expected), _short(gap.observed), _SHORT)
    shown = {"changed": f"{one} → {other}", "added": f"+ {other}", "removed": f"- {one}"}
    return f"{gap.path}: {shown[gap.kind]}"


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def cause_of(divergence: Divergence) -> str:
    """Return a cause such as ``event_payload_mismatch openai/gpt-5 $.request.body.messages[*]``."""
    seen = divergence.observed or divergence.expected
    where = divergence.json_path
    parts = (
        divergence.code,
        "" if seen is None else (seen.operation or seen.type),
        "" if where is None else _INDEX.sub("[*]", where),
    )
    return " ".join(part for part in parts if part)


class Key(NamedTuple):
    """Key of a group of outcomes."""

    status: Status
    cause: str
    known: bool

    @classmethod
    def of(cls, outcome: Outcome) -> Key:
        return cls(outcome.status, outcome.cause, outcome.known)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Failures with the same cause, sorted by recording."""

    status: Status
    cause: str
    known: bool
    outcomes: list[Outcome]

    @property
    def id(self) -> str:
        """Return an identifier that depends only on the cause, the status and the baseline."""
        text = f"{self.status}\n{self.cause}\n{self.known}"
        return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:10]


def groups(outcomes: Iterable[Outcome]) -> list[Group]:
    """Group the failures by cause. New causes come before known ones, then larger groups first."""
    found: dict[Key, list[Outcome]] = {}
    for one in sorted(outcomes, key=lambda outcome: outcome.recording):
        if one.status in BAD:
            found.setdefault(Key.of(one), []).append(one)
    made = [Group(**key._asdict(), outcomes=some) for key, some in found.items()]
    return sorted(
        made, key=lambda group: (group.known, -len(group.outcomes), group.status, group.cause)
    )


_IN_FULL = 5
"""Number of outcomes per cause that keep their details.

The limit lets ten thousand failures fit into memory. The first outcomes by name keep their details,
independent of the order of arrival.
"""


class Tally:
    """Outcomes of a regression, and their counts.

    The cost of :meth:`add` does not depend on the number of outcomes.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._outcomes: list[Outcome] = []
        self._full: dict[Key, list[Outcome]] = {}

    def add(self, outcome: Outcome) -> None:
        """Add an outcome. The tally can delete its details later."""
        self.counts[outcome.counted_as] += 1
        self._outcomes.append(outcome)
        if outcome.status not in BAD:
            return
        full = self._full.setdefault(Key.of(outcome), [])
        insort(full, outcome, key=lambda one: one.recording)
        if len(full) > _IN_FULL:
            last = full.pop()
            last.detail, last.divergence = "", None

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Outcome]:
        """Return the outcomes, sorted by recording."""
        return iter(sorted(self._outcomes, key=lambda one: one.recording))

    def groups(self) -> list[Group]:
        """Return the failures, grouped by cause."""
        return groups(self)
