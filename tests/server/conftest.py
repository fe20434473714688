"""A real server on a free port of this machine, with a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.house import House, running


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A server of one's own."""
    with running(tmp_path / "data") as house:
        yield house
