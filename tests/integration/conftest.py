"""Folders and file systems for the tests that try to destroy recordings, and a server for programs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.server import Server
from tests.integration.running import SERVES, Theatre

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


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Answers until the tests of the module are done; knows who has come."""
    server = Server(SERVES)
    yield server
    server.stop()


@pytest.fixture
def theatre(server: Server, tmp_path: Path) -> Theatre:
    """Where programs are recorded and replayed."""
    return Theatre(server, tmp_path)


@pytest.fixture(scope="module")
def stage(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Theatre:
    """The same for all tests of the module, which share its recordings."""
    return Theatre(server, tmp_path_factory.mktemp("stage"))
