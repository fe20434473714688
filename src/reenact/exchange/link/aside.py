"""What is not sent and not thrown away: exchanges that the server refuses, and remains of a crash."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from reenact._system import entropy
from reenact.store.files import make_private_folder, replace_file

__all__ = ["REASON", "Aside"]

REASON = "reason.json"


class Aside:
    """A folder for people to look into, shared by the processes of an app, bounded."""

    def __init__(self, folder: Path, *, most: int) -> None:
        self._folder = folder
        self._most = most

    @property
    def count(self) -> int:
        return len(self._found())

    def put(self, path: Path, reason: str) -> None:
        """Move the folder ``path`` here, with a file that states the ``reason``. Raises OSError."""
        make_private_folder(self._folder)
        replace_file(path / REASON, msgspec.json.encode({"reason": reason}), sync=False)
        path.rename(self._folder / f"{path.name}-{entropy(8).hex()}")
        self._prune()

    def _prune(self) -> None:
        for path in self._found()[: -self._most]:
            shutil.rmtree(path, ignore_errors=True)

    def _found(self) -> list[Path]:
        """The oldest first. Another process may be pruning as well."""
        stamped: list[tuple[int, Path]] = []
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            try:
                stamped.append((path.stat().st_mtime_ns, path))
            except FileNotFoundError:
                continue
        return [path for _, path in sorted(stamped)]
