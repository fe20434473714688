"""A stage for each major of the SDK."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.environments import IN_CI, Unavailable, build
from tests.frameworks.mcp.staging import ENVIRONMENTS, Stage

__all__ = ["make_stage", "stage", "stage_1", "stage_2"]


@pytest.fixture(params=sorted(ENVIRONMENTS))
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    """Programs of one major, then of the other."""
    return make_stage(request.param, tmp_path)


@pytest.fixture
def stage_1(tmp_path: Path) -> Stage:
    """What only major 1 has."""
    return make_stage("1", tmp_path)


@pytest.fixture
def stage_2(tmp_path: Path) -> Stage:
    """What only major 2 has."""
    return make_stage("2", tmp_path)


def make_stage(major: str, folder: Path) -> Stage:
    """What cannot be had is an error in CI, and else the reason to skip a test."""
    try:
        python = build(ENVIRONMENTS[major])
    except Unavailable as error:
        if IN_CI:
            raise
        pytest.skip(str(error))
    return Stage(python, major, folder)
