"""A project of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root: its cassettes are below ``.reenact/cassettes``. Not in CI, whoever runs this."""
    monkeypatch.setenv("REENACT_ROOT", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path
