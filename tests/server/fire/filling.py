"""A small disk of its own, which can be filled and emptied."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

_PIECE: Final = 4096


class Disk:
    """Mounted at ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        """Until nothing more goes in but ``leave`` bytes."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(_PIECE))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
            if leave:
                os.truncate(file.fileno(), max(0, file.tell() - leave))

    def free(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Disk]:
    """One of ``size`` (``8m``) at ``folder``. Skips the test where nothing may be mounted."""
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a small disk is mounted by root only")
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    mounted = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
