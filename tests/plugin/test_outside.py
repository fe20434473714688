"""What is no part of a test is not in its cassette, and a suite without marked tests pays nothing."""

from __future__ import annotations

from tests.plugin.project import Project

pytest_plugins = ["pytester"]

CONFTEST = """
import threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import pytest
from world import get


def pytest_runtest_setup(item):
    time.time()


def pytest_runtest_call(item):
    time.time(), get("/hook")


def pytest_runtest_logreport(report):
    time.time()


@pytest.fixture(scope="session")
def shared():
    return get("/shared"), time.time()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        answer = f"{time.time()} {get('/upstream')['path']}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *words):
        pass


def serving():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def own_server():
    yield from serving()


@pytest.fixture(scope="session")
def one_server():
    yield from serving()
"""
TESTS = """
import logging, os, random, subprocess, sys, time
import pytest
from world import get, httpx, URL

pytestmark = pytest.mark.reenact


def test_asks_for_what_is_shared(request):
    request.getfixturevalue("shared")
    get("/dynamic")


def test_has_what_is_shared(shared):
    get("/static")


def test_is_the_first_to_import():
    import lazy
    get("/lazy", t=time.time())


def test_server_of_the_test(own_server):
    httpx.get(own_server)
    get("/after", t=time.time())


def test_server_of_all(one_server):
    httpx.get(one_server)
    get("/then", t=time.time())


def test_folder(tmp_path, capfd):
    file = tmp_path / "note.txt"
    file.write_text("hello")
    done = subprocess.run(["cat", file], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "hello"
    subprocess.run([sys.executable, "-c", "print(2)"], env={**os.environ, "MORE": "1"}, check=True)
    assert capfd.readouterr().out == "2\\n"
    httpx.post(URL + "/posted", json={"file": str(file)})


def test_run_by(caplog):
    assert "test_run_by" in os.environ["PYTEST_CURRENT_TEST"]
    assert os.environ.get("PYTEST_XDIST_WORKER", "gw0").startswith("gw")
    logging.getLogger("it").warning("at %s", random.random())
    get("/run", r=random.random())


@pytest.mark.reenact(only="network")
def test_only_the_network():
    get("/only"), time.time(), random.random()
"""


def test_a_recording_holds_the_test_and_nothing_else(project: Project) -> None:
    project.write("conftest.py", CONFTEST)
    project.write("lazy.py", "import time, uuid\nBEGUN = time.time(), uuid.uuid4()\n")
    project.write("test_it.py", TESTS)
    project.run().assert_outcomes(passed=8)
    first = project.hashes()
    project.world.news()

    alone = project.run("-k", "import or dynamic or folder or asks", "-v", "-s")
    alone.assert_outcomes(passed=3, deselected=5)
    turned = project.run("-n", "2", "--randomly-seed", "7", plugins=("xdist", "randomly"))
    turned.assert_outcomes(passed=8)
    turned.stdout.fnmatch_lines(["reenact: 8 replayed"])
    # Hooks and what is shared are outside; so is a server of all, which asks for itself.
    assert set(project.world.news()) == {"/hook", "/shared", "/upstream"}

    with project.cassette("test_it/test_only_the_network").open(encoding="utf-8") as file:
        assert len(file.readlines()) == 3
    text = project.cassette("test_it/test_server_of_all").read_text("utf-8")
    assert ("/upstream" in text, "/then" in text) == (False, True)

    project.run("--reenact-rewrite", "-s", "-v", "-p", "no:logging").assert_outcomes(
        passed=7, errors=1
    )
    again = project.hashes()
    same = [name for name in first if again[name] == first[name]]
    assert "test_it/test_has_what_is_shared.jsonl" in same
    assert "test_it/test_asks_for_what_is_shared.jsonl" in same
    assert "test_it/test_only_the_network.jsonl" in same


PLAIN = """
import sys

def test_plain(tmp_path):
    loaded = {name for name in sys.modules if name.startswith(("reenact.", "msgspec"))}
    assert all(name.startswith(("reenact.pytest_plugin", "reenact.errors", "reenact._version")) for name in loaded), loaded
"""


def test_a_suite_without_marked_tests_loads_nothing_of_the_engine(project: Project) -> None:
    project.write("test_plain.py", PLAIN)
    run = project.run("-W", "error", "--doctest-modules")
    run.assert_outcomes(passed=1)
    assert "reenact:" not in run.stdout.str()
    assert not (project.root / ".reenact").exists()


def test_cassettes_lie_where_the_settings_say(project: Project) -> None:
    test = (
        "import pytest, time\nfrom world import get\n"
        "@pytest.mark.reenact\ndef test_a():\n    get('/a'), time.time()\n"
        "@pytest.mark.reenact('named')\ndef test_b():\n    get('/b')\n"
        "@pytest.mark.reenact(fixture_root='fixtures/one')\ndef test_c():\n    get('/c')\n"
    )
    project.write("tests/deep/test_it.py", test)
    project.settings("reenact_cassettes = beside", "reenact_only = network")
    run = project.run()
    run.assert_outcomes(passed=3)
    run.stdout.fnmatch_lines(["reenact: mode auto, cassettes beside the tests"])
    found = {file.relative_to(project.root).as_posix() for file in project.root.rglob("*.jsonl")}
    assert found == {
        "tests/deep/cassettes/named.jsonl",
        "tests/deep/cassettes/test_it/test_a.jsonl",
        "fixtures/one/rr/tests/deep/test_it/test_c.jsonl",
    }
    text = (project.root / "tests/deep/cassettes/test_it/test_a.jsonl").read_text("utf-8")
    assert '"clock"' not in text
    project.world.news()

    project.settings("reenact_cassettes = beside", "reenact_only = network", "reenact_mode = off")
    project.run("-k", "test_a").stdout.fnmatch_lines(["reenact: 1 live"])
    assert project.world.news() == ["/a"]
    project.run("--reenact-mode", "replay").assert_outcomes(passed=3)
    assert project.world.news() == []
    unpinned = project.run("--reenact-policy", "strict_v1", "-k", "test_a")
    unpinned.assert_outcomes(errors=1, deselected=2)
    assert "strict_v1" in unpinned.stdout.str()


ITEMS = """
import pathlib
import pytest
from reenact.pytest_plugin.cassette_marker import CassetteRequest
from world import get


class Line(pytest.Item):
    reenact_request = None

    def setup(self):
        get("/setup")

    def runtest(self):
        assert get(f"/{self.name}")["path"] == f"/{self.name}"


class Lines(pytest.File):
    def collect(self):
        for name in self.path.read_text().split():
            line = Line.from_parent(self, name=name)
            line.reenact_request = CassetteRequest(cassette=f"lines/{name}") if name != "live" else None
            yield line


def pytest_collect_file(file_path, parent):
    return Lines.from_parent(parent, path=file_path) if file_path.suffix == ".lines" else None
"""


def test_items_of_other_files_have_cassettes_if_they_carry_what_they_want(project: Project) -> None:
    project.write("conftest.py", ITEMS)
    project.write("some.lines", "one two live")
    project.run().assert_outcomes(passed=3)
    assert project.cassettes == ["lines/one.jsonl", "lines/two.jsonl"]
    project.world.news()
    again = project.run()
    again.assert_outcomes(passed=3)
    again.stdout.fnmatch_lines(["reenact: 2 replayed"])
    assert project.world.news() == ["/live", "/setup", "/setup", "/setup"]
