"""Environments, servers, and the record of what was tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.server import Server
from tests.frameworks.bedrock import bedrock_server
from tests.frameworks.environments import build
from tests.frameworks.servers import Aimock, _aimock, _llmock, aimock, available, llmock
from tests.frameworks.trying import Trial

__all__ = ["_aimock", "_llmock", "aimock", "bedrock", "llmock", "trial"]

Trials = Callable[..., Trial]


@pytest.fixture
def trial(aimock: Aimock, tmp_path: Path) -> Trials:
    """``trial("httpx2")``: programs of that environment, with aimock as their model server."""

    def make(environment: str, address: str = aimock.address, **environ: str) -> Trial:
        with available():
            python = build(environment)
        return Trial(python, tmp_path, address, environ)

    return make


@pytest.fixture(scope="module")
def bedrock() -> Iterator[Server]:
    """Answers as Bedrock does."""
    server = bedrock_server()
    yield server
    server.stop()
