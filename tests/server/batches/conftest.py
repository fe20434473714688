"""A server with agents that obey, and exchanges to replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from reenact.server.runtime import Timings
from tests.server.batches.worker import Worker
from tests.server.house import House, running
from tests.server.traffic.puppet import Puppet, exchange

QUICK = Timings(sweep=0.02, poll=0.05, ping=5.0)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with running(tmp_path / "data", timings=QUICK) as house:
        house.environment("staging")
        yield house


@pytest.fixture
def agent(house: House) -> Puppet:
    """In staging, with six exchanges."""
    agent = Puppet(house)
    assert agent.register().status_code == 200
    agent.ingest(*(exchange(f"ex-{number}") for number in range(1, 7)))
    return agent


@pytest.fixture
def worker(agent: Puppet) -> Iterator[Worker]:
    """Does what the agent is told."""
    with Worker(agent) as worker:
        yield worker


@pytest.fixture
def operator(house: House) -> httpx.Client:
    return house.client(house.key("replayer", "audit:read"))
