"""A marked test records the first time and replays after that: of every kind, in every way."""

from __future__ import annotations

from tests.plugin.project import Project

pytest_plugins = ["pytester"]

KINDS = """
import time, unittest, uuid
import pytest
from world import get, httpx, URL

pytestmark = pytest.mark.reenact


@pytest.fixture
def login():
    yield get("/login")
    get("/logout")


def test_fixtures(login):
    assert get("/now", t=time.time(), u=str(uuid.uuid4()))["path"] == "/now"


@pytest.mark.parametrize("city", ["bern", "Oslo"])
def test_city(city):
    assert get(f"/{city}")["path"] == f"/{city}"


class TestMethods:
    def setup_method(self):
        get("/setup")

    def teardown_method(self):
        get("/teardown")

    def test_method(self, reenact_session):
        assert reenact_session.mode in ("record", "replay")
        get("/method")


class TestCase(unittest.TestCase):
    def setUp(self):
        get("/case/setup")

    def tearDown(self):
        get("/case/teardown")

    def test_case(self):
        self.assertEqual(get("/case")["path"], "/case")


class TestTasks(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = httpx.AsyncClient(base_url=URL)
        await self.client.get("/tasks/setup")

    async def asyncTearDown(self):
        await self.client.aclose()

    async def test_tasks(self):
        assert (await self.client.get("/tasks")).json()["path"] == "/tasks"
"""
ALONE = """
from world import get

def test_alone(reenact_session):
    get("/alone")

def test_live():
    assert 1 + 1 == 2
"""
ASKED = [
    *("/Oslo", "/alone", "/bern", "/case", "/case/setup", "/case/teardown", "/login", "/logout"),
    *("/method", "/now", "/setup", "/tasks", "/tasks/setup", "/teardown"),
]
CASSETTES = [
    "test_alone/test_alone.jsonl",
    "test_kinds/TestCase.test_case.jsonl",
    "test_kinds/TestMethods.test_method.jsonl",
    "test_kinds/TestTasks.test_tasks.jsonl",
    "test_kinds/test_city-bern.jsonl",
    "test_kinds/test_city-oslo-a1ebf933.jsonl",
    "test_kinds/test_fixtures.jsonl",
]


def test_every_kind_of_test_records_once_and_replays(project: Project) -> None:
    project.write("test_kinds.py", KINDS)
    project.write("test_alone.py", ALONE)
    first = project.run()
    first.assert_outcomes(passed=8)
    first.stdout.fnmatch_lines(["reenact: 7 recorded"])
    assert project.world.news() == ASKED
    assert project.cassettes == CASSETTES

    written = {
        name: (project.root / ".reenact/cassettes" / name).read_bytes() for name in CASSETTES
    }
    again = project.run("-v", "-s")
    again.assert_outcomes(passed=8)
    again.stdout.fnmatch_lines(
        ["reenact: mode auto, cassettes in .reenact/cassettes", "reenact: 7 replayed"]
    )
    spread = project.run(
        "-n", "2", "--reenact-report", "report.json", plugins=("xdist", "randomly")
    )
    spread.assert_outcomes(passed=8)
    spread.stdout.fnmatch_lines(["reenact: 7 replayed"])
    assert project.world.news() == []
    assert written == {
        name: (project.root / ".reenact/cassettes" / name).read_bytes() for name in CASSETTES
    }
    told = project.report()
    assert sorted(test["cassette"] for test in told.values()) == [
        f".reenact/cassettes/{name}" for name in CASSETTES
    ]
    fixtures = told["test_kinds.py::test_fixtures"]
    assert (fixtures["did"], fixtures["outcome"], fixtures["mode"]) == (
        *("replayed", "passed"),
        "replay",
    )
    assert (fixtures["counts"]["live"], fixtures["divergences"]) == (0, [])


TASKS = """
import asyncio, time
import anyio, pytest, pytest_asyncio
from world import httpx, URL

pytestmark = pytest.mark.reenact


@pytest_asyncio.fixture
async def client():
    async with httpx.AsyncClient(base_url=URL) as client:
        await client.get("/client")
        yield client
        await client.get("/client/end")


async def test_loop(client):
    one, two = await asyncio.gather(client.get("/one"), client.get("/two", params={"t": time.time()}))
    assert (one.json()["path"], two.json()["path"]) == ("/one", "/two")


@pytest.mark.asyncio(loop_scope="module")
async def test_loop_of_module():
    async with httpx.AsyncClient(base_url=URL) as client:
        await client.get("/module")


@pytest.mark.asyncio(loop_scope="module")
async def test_loop_of_module_again():
    async with httpx.AsyncClient(base_url=URL) as client:
        await asyncio.wait_for(client.get("/module/again"), 5)
"""
ANYIO = """
import time
import anyio, pytest
from world import httpx, URL

pytestmark = [pytest.mark.reenact, pytest.mark.anyio]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def shared():
    async with httpx.AsyncClient(base_url=URL) as client:
        await client.get("/shared")
        yield client


@pytest.fixture
async def own():
    async with httpx.AsyncClient(base_url=URL) as client:
        await client.get("/own")
        yield client
        await client.get("/own/end")


async def test_alone():
    async with httpx.AsyncClient(base_url=URL) as client, anyio.create_task_group() as group:
        group.start_soon(client.get, "/first")
        group.start_soon(client.get, "/second")


async def test_with_a_runner_that_is_older(shared, own):
    await shared.get("/asked", params={"t": time.time()})
    await own.get("/own/asked")
"""


def test_asynchronous_tests_replay_in_any_order(project: Project) -> None:
    project.settings("asyncio_mode = auto", asyncio="asyncio_default_fixture_loop_scope = function")
    project.write("test_tasks.py", TASKS)
    project.run("test_tasks.py", plugins=("asyncio",)).assert_outcomes(passed=3)
    assert project.world.news() == [
        *("/client", "/client/end", "/module", "/module/again", "/one", "/two")
    ]
    project.run("test_tasks.py", plugins=("asyncio",)).assert_outcomes(passed=3)
    assert project.world.news() == []

    project.settings()
    project.write("test_anyio.py", ANYIO)
    project.run("test_anyio.py", plugins=("anyio",)).assert_outcomes(passed=2)
    assert project.world.news() == [
        *("/asked", "/first", "/own", "/own/asked", "/own/end", "/second", "/shared")
    ]
    names = ("test_with_a_runner_that_is_older", "test_alone")
    turned = project.run(*(f"test_anyio.py::{name}" for name in names), plugins=("anyio",))
    turned.assert_outcomes(passed=2)
    turned.stdout.fnmatch_lines(["reenact: 2 replayed"])
    assert project.world.news() == ["/shared"]  # of the module, and of no test
