"""A project that uses pytest-recording switches with one line, and its suite still passes.

The suite is recorded by the real pytest-recording, against a server that is gone afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interop.serving import serving

CONFTEST = '''
import pytest

@pytest.fixture(scope="module")
def vcr_config():
    return {
        "filter_headers": ["authorization", ("x-tenant", "DUMMY")],
        "filter_query_parameters": ["when"],
        "before_record_response": lambda response: response,
    }

def pytest_recording_configure(config, vcr):
    """A hook that a project may have."""
'''
SUITE = '''
import os
import httpx
import pytest
import requests

URL = os.environ["URL"]

class TestShop:
    @pytest.mark.vcr
    def test_volatile_body_and_order(self):
        """The default of vcrpy: bodies do not count, and what is alike is played in its order."""
        first = requests.get(URL + "/json?a=1").json()
        posted = requests.post(URL + "/echo", json={"id": os.urandom(4).hex()})
        second = requests.get(URL + "/json?a=1").json()
        assert posted.status_code == 200
        assert second["number"] == first["number"] + 2

@pytest.mark.vcr
@pytest.mark.parametrize("path", ["/json?x=1/2", "/binary"])
def test_parametrised(path):
    when = os.urandom(2).hex()
    answer = httpx.get(URL + path, params={"when": when}, headers={"Authorization": "Bearer x" * 9})
    assert answer.headers.get_list("x-twice") == ["one", "two"]

@pytest.mark.vcr("shared.yaml")
@pytest.mark.default_cassette("named")
def test_several_cassettes():
    assert requests.get(URL + "/missing").status_code == 404

@pytest.mark.vcr(match_on=["method", "uri", "body"])
def test_unplayed_calls_are_no_failure(vcr):
    requests.post(URL + "/echo", json={"n": 1})
    if os.environ["PHASE"] == "record":
        requests.post(URL + "/echo", json={"n": 2})
    if os.environ["PHASE"] == "replay":
        assert vcr.play_count == 1
        assert not vcr.all_played

def test_unmarked():
    assert os.environ["PHASE"]
'''
FRESH = """
import os
import pytest
import requests

@pytest.mark.vcr
def test_fresh():
    answer = requests.get(os.environ["URL"] + "/json", headers={"Authorization": "Bearer " + "s3cr3t" * 5})
    assert answer.status_code == 200

@pytest.mark.block_network
def test_blocked():
    requests.get(os.environ["URL"] + "/json")
"""
QUIET = tuple(
    f"no:{name}"
    for name in "anyio asyncio cassetter hypothesispytest randomly rerunfailures socket xdist".split()
)


def _pytest(project: Path, phase: str, url: str, *words: str) -> subprocess.CompletedProcess[str]:
    quiet = [word for name in QUIET for word in ("-p", name)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *quiet, *words],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": ":".join(filter(None, sys.path)),
            "PHASE": phase,
            "URL": url,
            "NO_PROXY": "*",
        },
        timeout=120,
    )


def _passed(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 0


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A project whose cassettes pytest-recording has written, and where the server was."""
    project = tmp_path_factory.mktemp("shop")
    (project / "conftest.py").write_text(CONFTEST, "utf-8")
    (project / "test_shop.py").write_text(SUITE, "utf-8")
    with serving() as server:
        done = _pytest(project, "record", server.url, "-p", "no:reenact", "--record-mode=once")
        assert _passed(done), done.stdout + done.stderr
        return project, server.url


def _files(project: Path) -> dict[str, Any]:
    found = project / "cassettes"
    return {
        str(path.relative_to(project)): path.read_bytes()
        for path in found.rglob("*")
        if path.is_file()
    }


@pytest.mark.slow
def test_one_line_switches_a_suite(recorded: tuple[Path, str]) -> None:
    project, url = recorded
    before = _files(project)
    assert "cassettes/test_shop/TestShop.test_volatile_body_and_order.yaml" in before
    assert "cassettes/test_shop/named.yaml" in before
    (project / "pytest.ini").write_text("[pytest]\nreenact_vcr = true\n", "utf-8")
    done = _pytest(project, "replay", url, "-p", "no:recording", "-rw")
    assert _passed(done), done.stdout + done.stderr
    assert "6 passed" in done.stdout
    assert "before_record_response is not honoured by reenact_vcr" in done.stdout
    assert _files(project) == before  # imported on the fly, and not into the tree

    both = _pytest(project, "replay", url)
    assert both.returncode == 4
    assert "-p no:recording" in both.stderr


@pytest.mark.slow
def test_a_migrated_suite_replays_and_records(recorded: tuple[Path, str], tmp_path: Path) -> None:
    project, url = recorded
    moved = subprocess.run(
        [sys.executable, "-m", "reenact", "import", "--vcr", "cassettes", "-o", tmp_path / "tapes"],
        cwd=project,
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))},
        timeout=60,
    )
    assert moved.returncode == 0, moved.stderr
    # The tapes alone: the YAML is gone, as is the server.
    other = tmp_path / "project"
    other.mkdir()
    (other / "conftest.py").write_text(CONFTEST, "utf-8")
    (other / "test_shop.py").write_text(SUITE, "utf-8")
    (other / "test_fresh.py").write_text(FRESH, "utf-8")
    (tmp_path / "tapes").rename(other / "cassettes")
    flags = ("-p", "no:recording", "--reenact-vcr")
    done = _pytest(other, "replay", url, *flags, "test_shop.py")
    assert _passed(done), done.stdout + done.stderr

    with serving() as server:
        done = _pytest(other, "replay", server.url, *flags, "--record-mode=once", "test_fresh.py")
        assert done.returncode == 1
        assert "1 failed, 1 passed" in done.stdout, done.stdout
        assert "filter_headers x-tenant is not honoured by reenact_vcr" in done.stdout
        assert server.asked == 1  # the blocked test did not come through
    tape = other / "cassettes" / "test_fresh" / "test_fresh.jsonl"
    assert "s3cr3t" not in tape.read_text("utf-8")
