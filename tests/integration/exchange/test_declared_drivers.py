"""Drivers that an app declares: a replay starts only if every loaded one has a treatment."""

import contextlib
import json
import queue
import socket
import sqlite3
import sys
import threading
from urllib.parse import urlsplit

import flask
import pytest

from reenact.errors import CapabilityDenied, UsageError
from reenact.exchange import Message
from tests.integration.exchange.apps import DECLARED, check, only, replay

assert "sqlite3" in sys.modules


def _without(*names):
    return {name: how for name, how in DECLARED.items() if name not in names}


def _exchange(agent):
    @agent.route("orders")
    def orders(message: Message) -> None:
        pass

    orders({})
    return only(agent)


@pytest.mark.parametrize("boundaries", ["recorded", "recorded_then_live"])
def test_replay_is_refused_while_a_loaded_driver_is_undeclared(make_agent, boundaries):
    agent = make_agent(drivers=_without("sqlite3"))
    refusal = check(agent, _exchange(agent), boundaries=boundaries)
    assert refusal is not None
    assert refusal.code == "drivers_undeclared"
    assert "has not declared how a replay treats them: sqlite3." in refusal.message
    assert "Agent(…, drivers={" in refusal.message
    assert '"sqlite3": "refuse"' in refusal.message


def test_live_replay_needs_no_declaration(make_agent):
    agent = make_agent(drivers=_without("sqlite3"))
    assert check(agent, _exchange(agent), boundaries="live") is None


@pytest.mark.parametrize("boundaries", ["recorded", "recorded_then_live"])
def test_worker_outside_the_replay_cannot_use_a_refused_driver(
    make_agent, upstream, tmp_path, boundaries
):
    """Also where new calls are made: those of the worker are, its statements are not."""
    agent = make_agent(drivers={**DECLARED, "sqlite3": "refuse"})
    database = sqlite3.connect(tmp_path / "data.db", isolation_level=None, check_same_thread=False)
    database.execute("CREATE TABLE one (name TEXT)")
    jobs: queue.Queue[queue.Queue[str] | None] = queue.Queue()

    def attempt(act) -> str:
        try:
            act()
        except Exception as error:
            return type(error).__name__
        return "done"

    def connect() -> None:
        with socket.socket() as made:
            made.connect(("127.0.0.1", urlsplit(upstream.url).port))

    def insert() -> None:
        database.execute("INSERT INTO one VALUES ('leak')")

    def work() -> None:
        while (done := jobs.get()) is not None:
            done.put(f"{attempt(connect)} {attempt(insert)}")

    worker = threading.Thread(target=work)
    worker.start()

    @agent.route("orders")
    def orders(message: Message) -> None:
        done: queue.Queue[str] = queue.Queue()
        jobs.put(done)
        message.body["said"] = done.get()

    try:
        assert orders({}) == {"said": "done done"}
        again = replay(agent, only(agent), tmp_path / "replayed", boundaries=boundaries).exchange
    finally:
        jobs.put(None)
        worker.join()
    connected = "done" if boundaries == "recorded_then_live" else "CapabilityDenied"
    assert again.result is not None
    assert again.replay is not None
    assert json.loads(again.result.body.text) == {"said": f"{connected} CapabilityDenied"}
    assert database.execute("SELECT count(*) FROM one").fetchone() == (1,)
    assert any("through sqlite3" in one["detail"] for one in again.replay.divergences)
    database.close()


@pytest.mark.parametrize("kind", [threading.Event, threading.Condition])
def test_live_request_that_waits_for_a_signal_of_a_replay_uses_its_database(
    make_agent, tmp_path, kind
):
    """The request is served live, so its statement is made. A worker in its place is refused."""
    agent = make_agent(
        drivers={**DECLARED, "sqlite3": "refuse"},
        sample=lambda route_id: 1.0 if "orders" in route_id else 0.0,
    )
    database = sqlite3.connect(tmp_path / "data.db", isolation_level=None, check_same_thread=False)
    database.execute("CREATE TABLE one (name TEXT)")
    ready = kind()
    waiters = getattr(ready, "_cond", ready)._waiters
    app = flask.Flask("shop")
    app.wsgi_app = agent.wsgi(app.wsgi_app)  # type: ignore[method-assign]

    def wait(name: str) -> None:
        if isinstance(ready, threading.Event):
            ready.wait()
        else:
            with ready:
                ready.wait()
        database.execute("INSERT INTO one VALUES (?)", [name])

    @app.get("/wait")
    def get_wait() -> str:
        wait("live")
        return "written"

    @app.post("/orders")
    def post_order() -> str:
        if isinstance(ready, threading.Event):
            ready.set()
        else:
            with ready:
                ready.notify_all()
        for thread in [one for one in threading.enumerate() if one.name == "waits"]:
            thread.join()
        return "ok"

    def work() -> None:
        with contextlib.suppress(CapabilityDenied):
            wait("worker")

    def start(*targets) -> None:
        for number, target in enumerate(targets):
            threading.Thread(target=target, name="waits").start()
            while len(waiters) <= number:
                pass

    client = app.test_client()
    client.post("/orders", buffered=True)
    getattr(ready, "clear", lambda: None)()
    answers: list[str] = []
    start(work, lambda: answers.append(app.test_client().get("/wait", buffered=True).text))
    found = replay(agent, only(agent), tmp_path / "replayed").exchange
    assert answers == ["written"]
    assert database.execute("SELECT name FROM one").fetchall() == [("live",)]
    assert found.replay is not None
    [divergence] = found.replay.divergences
    assert "which a signal of the session has woken" in divergence["detail"]
    database.close()


@pytest.mark.parametrize("treatment", ["allow", "refuse"])
def test_declared_driver_is_reported_and_lets_the_replay_start(make_agent, tmp_path, treatment):
    agent = make_agent(drivers={**DECLARED, "sqlite3": treatment})
    registered = agent.registration().containment
    assert ("sqlite3", treatment) in [(one.name, one.treatment) for one in registered.drivers]
    found = replay(agent, _exchange(agent), tmp_path / "replayed").exchange.replay
    assert found is not None
    assert found.containment == registered


def test_driver_that_is_loaded_later_is_reported_with_the_next_heartbeat(make_agent, monkeypatch):
    """A registration that differs from the last one is sent again."""
    agent = make_agent(drivers=_without("pymssql"))
    before = agent.registration()
    monkeypatch.setitem(sys.modules, "pymssql", sqlite3)
    after = agent.registration()
    assert before != after
    assert [one.name for one in after.containment.drivers if one.treatment == "undeclared"] == [
        "pymssql"
    ]


def test_line_to_add_allows_drivers_that_cannot_be_refused(make_agent, monkeypatch):
    agent = make_agent(drivers=_without("pyodbc"))
    exchange = _exchange(agent)
    monkeypatch.setitem(sys.modules, "pyodbc", sqlite3)
    refusal = check(agent, exchange)
    assert refusal is not None
    assert '"pyodbc": "allow"' in refusal.message


def test_module_name_of_a_driver_is_accepted(make_agent):
    agent = make_agent(drivers={"pymysql": "allow"})
    assert agent.runner._declared.drivers == {"PyMySQL": "allow"}


@pytest.mark.parametrize(
    "drivers, words, hint",
    [
        ({"psycopgg": "allow"}, "'psycopgg' is not a driver", "did you mean psycopg"),
        (
            {"psycopg": "yes"},
            "'yes' is not a treatment of the driver psycopg",
            "'allow' or 'refuse'",
        ),
        (
            {"psycopg": "recorded"},
            "the treatment 'recorded' of the driver psycopg is not available yet",
            "refuse",
        ),
        (
            {"psycopg": "rollback"},
            "the treatment 'rollback' of the driver psycopg is not available yet",
            "refuse",
        ),
    ],
)
def test_agent_names_what_is_wrong_with_its_drivers(make_agent, drivers, words, hint):
    with pytest.raises(UsageError) as caught:
        make_agent(drivers=drivers)
    assert words in caught.value.message
    assert hint in caught.value.hint
