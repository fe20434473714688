"""Folders and file systems for the tests that try to destroy recordings."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """Like ``tmp_path``, in memory where that exists: for thousands of small files and syncs."""
    if not os.access(_MEMORY, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="reenact-", dir=_MEMORY))
    yield folder
    shutil.rmtree(folder)
