"""Two recordings of a program that does the same have the same content hash."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import SOAK
from tests.contract.server import Server
from tests.frameworks.conftest import Trials
from tests.frameworks.steady import steady_server

pytestmark = pytest.mark.slow

FRAMEWORKS = {
    "openai": "httpx2",
    "anthropic": "httpx2",
    "langchain": "httpx2",
    "agents": "httpx2",
    "pydantic": "httpx2",
    "litellm": "httpx",
    "smolagents": "httpx",
}


@pytest.fixture(scope="module")
def steady() -> Iterator[Server]:
    server = steady_server()
    yield server
    server.stop()


_QUICK = ("langchain", "openai", "smolagents")
"""In ``make test``; the others take part in ``make soak``."""


@pytest.mark.soak
@pytest.mark.parametrize("framework", sorted(FRAMEWORKS) if SOAK else _QUICK)
def test_two_recordings_have_the_same_hash(framework: str, trial: Trials, steady: Server) -> None:
    tried = trial(FRAMEWORKS[framework], steady.url)
    program = tried.bring("steady")
    hashes = []
    for name in ("one", "other"):
        steady.begin_act()
        recorded = tried.record(program, framework, name=name)
        assert recorded.code == 0, recorded.err
        hashes.append(tried.content_hash(name))
    assert hashes[0] == hashes[1]
