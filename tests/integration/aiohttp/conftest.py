"""A server for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.loopback import Loopback
from tests.integration.loopback_routes import ROUTES


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Loopback]:
    server = Loopback(tmp_path)
    server.start(ROUTES)
    yield server
    server.stop()
