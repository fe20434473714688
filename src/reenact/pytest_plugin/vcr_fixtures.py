"""Fixtures of pytest-recording that a project can use or override."""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = [
    "VcrCassette",
    "default_cassette_name",
    "default_name",
    "disable_recording",
    "record_mode",
    "vcr",
    "vcr_cassette_dir",
    "vcr_config",
    "vcr_markers",
]

_FORBIDDEN = r"<>?%*:|\"'/\\"


@pytest.fixture(scope="session")
def record_mode(request: pytest.FixtureRequest) -> str:
    """Return the value of ``--record-mode``; ``none`` by default."""
    return request.config.getoption("record_mode") or "none"


@pytest.fixture(scope="session")
def disable_recording(request: pytest.FixtureRequest) -> bool:
    """Return True for ``--disable-recording``."""
    return bool(request.config.getoption("disable_recording"))


@pytest.fixture
def vcr_config() -> dict[str, Any]:
    """Return the arguments of ``vcr.use_cassette``. Projects override this fixture."""
    return {}


@pytest.fixture
def vcr_markers(request: pytest.FixtureRequest) -> list[pytest.Mark]:
    """Return all ``vcr`` markers of the test, the nearest first."""
    return list(request.node.iter_markers(name="vcr"))


@pytest.fixture(scope="module")
def vcr_cassette_dir(request: pytest.FixtureRequest) -> str:
    """Return ``cassettes/<module>`` next to the module."""
    path = request.node.path
    return os.path.join(path.parent, "cassettes", path.stem)


@pytest.fixture
def default_cassette_name(request: pytest.FixtureRequest) -> str:
    """Return the name of the test with its class, or the argument of the marker
    ``default_cassette``."""
    marker = request.node.get_closest_marker("default_cassette")
    if marker is not None:
        if not marker.args:
            raise pytest.UsageError("the marker default_cassette needs a name")
        return str(marker.args[0])
    return default_name(request.cls, request.node.name)


def default_name(cls: type | None, name: str) -> str:
    """Return the name of a test, without characters that are not allowed in file names."""
    whole = name if cls is None else f"{cls.__name__}.{name}"
    return "".join("-" if letter in _FORBIDDEN else letter for letter in whole)


class VcrCassette:
    """Interface of a vcrpy cassette, based on the session of the test."""

    def __init__(self, session: Any) -> None:
        self.session = session

    @property
    def play_count(self) -> int:
        """Return the number of served calls."""
        return int(self.session.report().served)

    @property
    def all_played(self) -> bool:
        """Return True if every recorded call was served."""
        return not any(self.session.machine.unused())


@pytest.fixture
def vcr(request: pytest.FixtureRequest) -> VcrCassette | None:
    """Return the cassette of a marked test; None for others."""
    if not request.node.get_closest_marker("vcr"):
        return None
    return VcrCassette(request.getfixturevalue("reenact_session"))
