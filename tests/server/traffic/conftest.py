"""A server with an agent in staging that has sent one exchange."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, exchange


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with running(tmp_path / "data") as house:
        house.environment("staging")
        yield house


@pytest.fixture
def agent(house: House) -> Puppet:
    agent = Puppet(house)
    assert agent.register().status_code == 200
    assert [one["status"] for one in agent.ingest(exchange())] == ["stored"]
    return agent


@pytest.fixture
def operator(house: House) -> httpx.Client:
    """Somebody who may replay in staging, and not in production."""
    return house.client(house.key("replayer", "audit:read"))
