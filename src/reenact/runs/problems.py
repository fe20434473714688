"""What processes of a re-enacted run could not do, and who still runs after that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reenact.runs.plan import Told, reports
from reenact.runs.telling import say_error

__all__ = ["left_running", "say_problem"]

_UNREADABLE = 3


def left_running(folder: Path) -> list[int] | None:
    """The processes that go on although one has diverged or failed, by what is told in ``folder``;
    None where none has."""
    told = reports(folder)
    over = any(one.texts or one.problem is not None for one in told)
    return [one.pid for one in told if not one.ended] if over else None


def say_problem(told: Sequence[Told]) -> int | None:
    """Say what the first of them could not do, and return the exit code; None where nothing was."""
    problem = next((one.problem for one in told if one.problem is not None), None)
    if problem is None:
        return None
    say_error(str(problem.get("message", "")), str(problem.get("hint", "")))
    return _UNREADABLE
