"""What a comparison says: plain values, as the API gives them out."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from reenact.exchange.comparison.asking import Answer
from reenact.exchange.comparison.changes import Changed
from reenact.exchange.model import Verdict

__all__ = [
    "LISTED",
    "CallChange",
    "Comparison",
    "Counts",
    "Durations",
    "HttpStatuses",
    "ProcessorChange",
    "Sides",
    "State",
]

LISTED: Final = 2_000
"""How many changes a list holds at most; all of them are counted."""

State = Literal["same", "changed", "added", "removed"]


class _Value(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All fields are written, whether they have their default or not."""


class Sides(_Value, frozen=True):
    """Two texts."""

    before: str = ""
    after: str = ""


class HttpStatuses(_Value, frozen=True):
    """HTTP statuses of two responses; 0 where there is none."""

    before: int = 0
    after: int = 0


class Durations(_Value, frozen=True):
    """In milliseconds; None where there is none."""

    before: float | None = None
    after: float | None = None


class Counts(_Value, frozen=True):
    """Places that were changed, processors and calls that were added or removed, and among all of
    them those that are noise. Noise counts nowhere else."""

    changed: int = 0
    added: int = 0
    removed: int = 0
    noise: int = 0


class ProcessorChange(_Value, frozen=True):
    """``before`` and ``after`` are the seqs of a processor. ``path`` names it with those around
    it."""

    processor_id: str
    path: str
    state: State
    iteration: int | None = None
    before: int | None = None
    after: int | None = None
    changes: tuple[Changed, ...] = ()
    duration: Durations = Durations()
    noise: bool = False
    """Only noise has changed here."""


class CallChange(_Value, frozen=True):
    """``before`` and ``after`` are the seqs of a call in its recording; a call that was refused has
    none. ``answer`` says what a call of a replay got that is not the recorded one."""

    state: State
    operation: str
    type: str = ""
    lane: str = ""
    before: int | None = None
    after: int | None = None
    changes: tuple[Changed, ...] = ()
    answer: Answer = ""
    noise: bool = False


class Comparison(_Value, frozen=True):
    """Two exchanges side by side."""

    verdict: Verdict
    first: str = ""
    """The first difference that counts, in words; empty when there is none."""
    cause: str = ""
    """The same without its values: alike for all that differ in the same place."""
    status: Sides = Sides()
    ending: Sides = Sides()
    """The ending of each exchange: ``completed``, ``refused`` (an HTTP status of 400 to 499) or ``failed``."""
    http_status: HttpStatuses = HttpStatuses()
    start: tuple[Changed, ...] = ()
    result: tuple[Changed, ...] = ()
    processors: tuple[ProcessorChange, ...] = ()
    calls: tuple[CallChange, ...] = ()
    divergences: tuple[dict[str, Any], ...] = ()
    """Those of the replay, each with the ``answer`` that the call got, if it is about one."""
    revision: Sides = Sides()
    duration: Durations = Durations()
    counts: Counts = Counts()
