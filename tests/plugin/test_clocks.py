"""Tests whose clock or chance another plugin has in its hands."""

from __future__ import annotations

import pytest

from tests.plugin.project import Project

pytest_plugins = ["pytester"]

pytest.importorskip("freezegun")
pytest.importorskip("faker")

TESTS = """
import datetime, random, time
import pytest
from freezegun import freeze_time
from world import get

pytestmark = pytest.mark.reenact


@freeze_time("2020-01-01")
def test_frozen():
    assert datetime.datetime.now().year == 2020
    get("/frozen", t=time.time())


def test_frozen_for_a_while():
    with freeze_time("2021-01-01") as clock:
        get("/cold", t=time.time())
        clock.tick()
        get("/cold", t=time.time())
    get("/thawed", t=time.time())


def test_made_up(faker):
    get("/made/up", name=faker.name(), r=random.random())
"""


def test_frozen_clocks_and_seeds_are_the_same_in_every_run(project: Project) -> None:
    project.write("test_it.py", TESTS)
    plugins = ("randomly", "faker.contrib.pytest.plugin")
    project.run("--randomly-seed", "1", plugins=plugins).assert_outcomes(passed=3)
    assert project.world.news() == ["/cold", "/cold", "/frozen", "/made/up", "/thawed"]
    again = project.run("--randomly-seed", "2", plugins=plugins)
    again.assert_outcomes(passed=3)
    again.stdout.fnmatch_lines(["reenact: 3 replayed"])
    assert project.world.news() == []
