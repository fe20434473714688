"""Where captures go that nobody has named a place for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from reenact._system import entropy
from reenact.policy.places import FOLDER

__all__ = ["new_place", "runs_folder"]


def runs_folder(root: Path) -> Path:
    """Where captures go when no place is given."""
    return root / FOLDER / "runs"


def new_place(root: Path) -> Path:
    """A capture of our own naming; names sort by time. Captures are not for a repository."""
    folder = runs_folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n", encoding="utf-8")
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return folder / f"{stamp}-{entropy(2).hex()}"
