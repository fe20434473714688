"""What a run says of its cassettes at the end."""

from __future__ import annotations

from tests.plugin.project import Project

pytest_plugins = ["pytester"]


SECRETS = """
import httpx, pytest
from world import URL

@pytest.mark.reenact
@pytest.mark.parametrize("number", range(3))
def test_signs_in(number):
    answer = httpx.post(f"{URL}/{number}", json={"access_token": "a-long-value-that-is-secret"})
    assert answer.status_code == 200
"""


def test_what_many_tests_have_to_be_told_is_told_once(project: Project) -> None:
    project.write("test_it.py", SECRETS)
    project.run()
    told = "a recorded answer has values that were redacted"
    again = project.run().stdout
    again.fnmatch_lines(
        [f"test_it.py::test_signs_in?0? and 2 more: {told}*", "reenact: 3 replayed"]
    )
    assert again.str().count(told) == 1
    each = project.run("-v").stdout
    each.fnmatch_lines([f"test_it.py::test_signs_in?{number}?: {told}*" for number in range(3)])
