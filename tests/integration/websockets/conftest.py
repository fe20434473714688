"""A server to talk to, and a place for recordings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.chatting import Chat
from tests.integration.sessions import Studio


@pytest.fixture
def studio(tmp_path: Path) -> Studio:
    return Studio(tmp_path)


@pytest.fixture
def chat() -> Iterator[Chat]:
    server = Chat()
    server.start()
    yield server
    server.go.set()
    server.stop()
