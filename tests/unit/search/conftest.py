"""A project to search in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.search.finding import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    root = tmp_path / "project"
    (root / ".reenact").mkdir(parents=True)
    return Project(root, {"REENACT_CONFIG_DIR": str(tmp_path / "user")})
