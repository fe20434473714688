"""Budgets of a recording: how many calls and bytes the policy allows, and how many are used.

A full recording stays full. Starting with the first call that exceeds a budget, every call is
refused, both while recording and in a replay. Only the first of these refusals is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reenact.engine.call import PAIRS, SCHEDULE
from reenact.errors import BudgetExceeded
from reenact.format.canonical import exact
from reenact.format.event import Data, Event
from reenact.format.manifest import Manifest
from reenact.policy.access import over_bytes, over_entries, over_response
from reenact.policy.model import Policy
from reenact.store.files import EVENTS

__all__ = [
    "RecordingBudget",
    "count_recorded_calls",
    "is_full_refusal",
    "recorded_size",
    "repeat_refusal",
]

_ENVELOPE = 256
"""Bytes of a line besides the data of its event, at most."""

_FRAME = 8_192
"""Bytes that are kept for the head and the end of a recording, and for the last refusal."""

_WHOLE = ("entries", "cassetteBytes")
"""The budgets of a whole recording."""


class RecordingBudget:
    """The budgets of one recording under ``policy``; ``entries`` and ``size`` are there already. With
    ``counts_kept`` those entries count that are kept: in an update others may go.

    Sizes are upper bounds, so that what was recorded within a budget opens within it. The
    session's lock covers every change. Raises :class:`BudgetExceeded` where not even a recording
    without calls fits.
    """

    def __init__(
        self, policy: Policy, *, entries: int = 0, size: int = 0, counts_kept: bool = False
    ) -> None:
        budgets = policy.budgets
        self.full: BudgetExceeded | None = None
        """Why nothing more fits, if nothing does."""
        self.measures = budgets.response_bytes is not None or budgets.cassette_bytes is not None
        self._policy = policy
        self._counts_bytes = budgets.cassette_bytes is not None
        self._entries = 0 if counts_kept else entries
        self._counts_kept = counts_kept
        self._size = size + _FRAME
        refusal = over_bytes(policy, self._size)
        if refusal is not None:
            raise refusal

    def admit(self, request: Data) -> BudgetExceeded | None:
        """Why one more call does not fit; None when it does, and then it is counted."""
        if self.full is not None:
            return repeat_refusal(self.full)
        self.full = over_entries(self._policy, self._entries + 1) or self._over_bytes(request)
        if self.full is None:
            self._entries += 1
        return self.full

    def keep(self) -> None:
        """A recorded call stays, where they are counted as they are asked for."""
        if self._counts_kept:
            self._entries += 1

    def over_budget(self, data: Data) -> BudgetExceeded | None:
        """Why a completing event with ``data`` may not be written."""
        if not self.measures:
            return None
        size = len(exact(result_of(data)))
        return self.over_answer(size) or self._fill(self._over_bytes(data))

    def over_answer(self, size: int) -> BudgetExceeded | None:
        """Why an answer, or the part of it that has come, is too large with ``size`` bytes."""
        return over_response(self._policy, size)

    def _over_bytes(self, data: Data) -> BudgetExceeded | None:
        if not self._counts_bytes:
            return None
        return over_bytes(self._policy, self._size + len(exact(data)) + _ENVELOPE)

    def _fill(self, refusal: BudgetExceeded | None) -> BudgetExceeded | None:
        self.full = self.full or refusal
        return refusal

    def took(self, data: Data) -> None:
        """An event with ``data`` is being written."""
        if self._counts_bytes:
            self._size += len(exact(data)) + _ENVELOPE


def result_of(data: Data) -> Any:
    """The part of a completing event that the program gets."""
    names = ("response", "result", "value")
    return next((data[name] for name in names if name in data), None)


def repeat_refusal(error: BudgetExceeded) -> BudgetExceeded:
    """Return a new error with the fields of ``error``."""
    return BudgetExceeded(error.message, hint=error.hint, **error.fields)


def is_full_refusal(error: BaseException) -> bool:
    """Did this refusal say that the recording is full?"""
    return isinstance(error, BudgetExceeded) and error.fields.get("budget") in _WHOLE


def count_recorded_calls(events: Iterable[Event]) -> int:
    """Return the number of calls, except for calls over budget."""
    return sum(1 for event in events if _is_call(event))


def _is_call(event: Event) -> bool:
    if event.type in PAIRS or event.type in ("run_start", "run_end"):
        return False  # counted when it completes; no call
    error = event.data.get("error")
    refused = isinstance(error, dict) and error.get("kind") == "budget"
    return not refused and event.data.get("source") != SCHEDULE


def recorded_size(path: Path, manifest: Manifest) -> int:
    """Return the bytes of a recording: its events and blobs."""
    log = path / EVENTS if path.is_dir() else path
    return log.stat().st_size + manifest.blobs.bytes
