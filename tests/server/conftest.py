"""A real server on a free port of this machine, with a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.databases import DATABASES, Kind, chosen
from tests.server.house import House, running


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Those that are marked ``both_databases`` run on each in `make soak`, on SQLite in `make test`."""
    marked = metafunc.definition.get_closest_marker
    if marked("both_databases") and not marked("sqlite_file") and chosen() == "sqlite":
        postgresql = pytest.param("postgresql", marks=pytest.mark.soak_only)
        metafunc.parametrize("database_kind", ["sqlite", postgresql], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that look into SQLite's file have nothing to look into on another database."""
    if chosen() == "postgresql":
        for item in items:
            if item.get_closest_marker("sqlite_file"):
                item.add_marker(pytest.mark.skip(reason="looks into the file of SQLite"))


def pytest_sessionfinish() -> None:
    DATABASES.close()


@pytest.fixture(autouse=True)
def database_kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """On what the servers of this test run."""
    kind: Kind = getattr(request, "param", chosen())
    with DATABASES.on(kind):
        yield kind


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A server of one's own."""
    with running(tmp_path / "data") as house:
        yield house
