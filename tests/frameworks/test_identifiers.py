"""Identifiers that litellm and langchain draw in Rust, where no function of Python is called."""

from __future__ import annotations

import pytest

from tests.frameworks.conftest import Trials

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("world,library", [("httpx2", b"uuid_utils"), ("httpx", b"fastuuid")])
def test_identifiers_that_are_made_in_rust(world: str, library: bytes, trial: Trials) -> None:
    tried = trial(world)
    program = tried.bring("identifiers")
    recorded = tried.record(program)
    assert recorded.code == 0, recorded.err
    assert library in recorded.out
    replayed = tried.replay(program)
    assert replayed.own == recorded.own, replayed.err
    assert ", 0 live, 0 unused" in replayed.summary
