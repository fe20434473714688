"""Whose lines of code are shown: the user's own."""

from __future__ import annotations

import sys
import traceback
from types import FrameType

from reenact.boundaries.callers import tier_of

__all__ = ["is_own", "own_frames", "own_stack"]

_FRAMES = 5


def is_own(frame: FrameType) -> bool:
    """Does ``frame`` run code of the user's own?"""
    return tier_of(frame.f_globals) == "user"


def own_frames(error: BaseException) -> list[tuple[str, int]]:
    """The files and lines of the user's own that ``error`` came through."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if is_own(trace.tb_frame):
            found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return found


def own_stack() -> str:
    """The last lines of the user's own code that have led to here, as a traceback shows them."""
    frame: FrameType | None = sys._getframe(1)
    found: list[tuple[FrameType, int]] = []
    while frame is not None and len(found) < _FRAMES:
        if is_own(frame):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(found)).format())
