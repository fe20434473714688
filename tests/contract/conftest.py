"""One server for the tests of a module; a stage of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.endpoints import ENDPOINTS
from tests.contract.server import Server
from tests.contract.stage import Stage


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Stays until the module is done."""
    server = Server(ENDPOINTS)
    yield server
    server.stop()


@pytest.fixture
def stage(server: Server, tmp_path: Path) -> Stage:
    return Stage(server, tmp_path)
