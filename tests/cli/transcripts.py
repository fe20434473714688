"""Commands and what they print, as somebody sees it who types them."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.conftest import Ran, Run
from tests.snapshots import Snapshot

__all__ = ["Look", "look_with", "transcript"]

Look = Callable[..., list[int]]
"""``look("verify", "verify run", "verify other")``: runs them, compares, returns the exit codes."""


def transcript(line: str, ran: Ran) -> str:
    """A command, its output, what it said besides, and its exit code unless that is 0."""
    code = f"[exit code {ran.code}]\n" if ran.code else ""
    return f"$ reenact {line}\n{ran.out}{ran.err}{code}\n"


def look_with(run: Run, snapshot: Snapshot) -> Look:
    """Runs commands in this process, one after the other."""

    def look(name: str, *lines: str, changing: dict[str, str] | None = None) -> list[int]:
        seen = [(line, run(*line.split())) for line in lines]
        text = "".join(transcript(line, ran) for line, ran in seen)
        snapshot(name, text, changing, exact=True)
        return [ran.code for _, ran in seen]

    return look
