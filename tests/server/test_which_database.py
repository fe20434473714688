"""A run on another database is on that one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.server.databases import Kind
from tests.server.house import House

# As a run does: what tests need is imported, and then the environment is emptied of what is ours.
PROGRAM = """
import os
from tests.server import databases
del os.environ["REENACT_TEST_DATABASE"]
print(databases.chosen())
"""


@pytest.mark.slow
def test_the_choice_outlives_the_environment_that_it_was_made_in() -> None:
    """It did not: whole runs "on PostgreSQL" were on SQLite."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "REENACT_TEST_DATABASE": "postgresql"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "postgresql\n", done.stderr


@pytest.mark.both_databases
def test_the_servers_of_a_test_are_on_what_it_is_marked_with(
    house: House, database_kind: Kind
) -> None:
    assert house.server.database.dialect == database_kind
