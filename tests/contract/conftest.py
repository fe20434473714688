"""One server for the tests of a module; a stage of its own for each test."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.contract.endpoints import ENDPOINTS
from tests.contract.relays import certificate
from tests.contract.server import Handler, Server
from tests.contract.stage import Stage


@pytest.fixture(scope="module")
def own_endpoints() -> Mapping[str, Handler]:
    """What the server answers only in the tests of a module, which has a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def server(own_endpoints: Mapping[str, Handler]) -> Iterator[Server]:
    """Stays until the module is done."""
    server = Server({**ENDPOINTS, **own_endpoints})
    yield server
    server.stop()


@pytest.fixture
def stage(server: Server, tmp_path: Path) -> Stage:
    return Stage(server, tmp_path)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody knows, and its key."""
    return certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def nobody() -> Iterator[int]:
    """A port that is taken, and on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
