"""Where captures go that nobody has named a place for."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from reenact._system import entropy
from reenact.policy.places import FOLDER
from reenact.store.files import unwritable

__all__ = ["free_sibling", "new_place", "runs_folder"]


def runs_folder(root: Path) -> Path:
    """Where captures go when no place is given."""
    return root / FOLDER / "runs"


def new_place(root: Path) -> Path:
    """A capture of our own naming; names sort by time. Captures are not for a repository.

    Raises :class:`SinkUnwritable` where the folder for captures cannot be created.
    """
    folder = runs_folder(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise unwritable(folder, error) from None
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")
    return folder / f"{stamp}-{entropy(2).hex()}"


def free_sibling(place: Path) -> Path:
    """``place`` if there is nothing, else the first of ``place-2``, ``place-3`` … that is free. It is
    created, so that no other process takes it.

    Raises :class:`SinkUnwritable` where it cannot be created.
    """
    try:
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            return place
        for number in count(2):
            beside = place.with_name(f"{place.name}-{number}")
            with suppress(FileExistsError):
                beside.mkdir()
                return beside
    except OSError as error:
        raise unwritable(place, error) from None
    raise AssertionError("there is no last number")
