"""A secret that a test sends and gets is in no cassette, no report, and not on the screen."""

from __future__ import annotations

import pytest

from tests.leak.planted import plant_shape
from tests.plugin.project import Project
from tests.plugin.world import World

pytest_plugins = ["pytester"]

TEST = """
import pathlib
import pytest
from world import httpx, URL

SECRET = pathlib.Path(__file__).with_name("secret.txt").read_text()
CHANGED = pathlib.Path(__file__).with_name("changed").exists()


@pytest.mark.reenact(scope={scope!r})
def test_it():
    try:
        httpx.post(
            f"{{URL}}/it?access_token={{SECRET}}",
            headers={{"authorization": f"Bearer {{SECRET}}"}},
            json={{"password": SECRET, "more": CHANGED}},
        )
    except BaseException:
        pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> object:
    world = World()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("CI", raising=False)
    yield Project(pytester, world)
    world.stop()


@pytest.mark.parametrize("scope", ["function", "module"])
def test_no_cassette_and_no_report_has_a_secret(project: Project, scope: str) -> None:
    plant = plant_shape("shape.github", f"plugin {scope}")
    secret = project.write("secret.txt", plant.text)
    project.write("test_it.py", TEST.format(scope=scope))
    said = project.run("--reenact-report", "first.json").stdout.str()
    assert len(project.cassettes) == 1
    project.write("changed", "")
    second = project.run("--reenact-report", "report.json")
    second.assert_outcomes(failed=1)
    said += second.stdout.str()
    assert project.report()["test_it.py::test_it"]["divergences"] != []
    secret.unlink()
    for file in (file for file in project.root.rglob("*") if file.is_file()):
        assert [needle for needle in plant.needles() if needle in file.read_bytes()] == [], file
    assert [needle for needle in plant.needles() if needle.decode() in said] == []
