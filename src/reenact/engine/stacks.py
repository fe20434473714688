"""Where a lane stands, for the person who looks at a stall."""

from __future__ import annotations

import io
import sys
from types import FrameType

from reenact.engine.lanes import Lanes

__all__ = ["stack_of", "standing"]

_NEAR = 3
_FRAMES = 12


def stack_of(lanes: Lanes, name: str) -> str:
    """The stack of what is in lane ``name``; empty when nothing is."""
    task = lanes.task_of(name)
    if task is not None:
        text = io.StringIO()
        task.print_stack(limit=_FRAMES, file=text)
        return text.getvalue()
    ident = lanes.thread_of(name)
    frame = sys._current_frames().get(ident) if ident is not None else None
    if frame is None:
        return ""
    import traceback

    return "".join(traceback.format_stack(frame, limit=_FRAMES))


def standing() -> str:
    """Where the program stands that has called us: the last frames that are not ours."""
    import traceback

    frame: FrameType | None = sys._getframe(1)
    found: list[tuple[FrameType, int]] = []
    while frame is not None and len(found) < _NEAR:
        if not frame.f_globals.get("__name__", "").startswith("reenact."):
            found.append((frame, frame.f_lineno))
        frame = frame.f_back
    return "".join(traceback.StackSummary.extract(reversed(found)).format())
