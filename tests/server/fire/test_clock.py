"""Clocks that differ, and clocks that are set while things happen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from reenact.server.replays.expiry import sweep
from reenact.server.runtime import Limits, Timings
from tests.server.fire.clocked import ClockedAgent, Shop
from tests.server.fire.operating import Operator
from tests.server.fire.running import QUICK, until
from tests.server.house import PASSWORD, Clock, House, running
from tests.server.traffic.puppet import Puppet, ask_for, code_of, exchange

HOUR = 3600.0
YEAR = 365 * 24 * HOUR
BEATING = Timings(retry=QUICK["retry"], poll=QUICK["poll"], heartbeat=0.05, sweep=3600.0)
"""Agents beat all the time, and deadlines are looked at when a test says so."""


class Desk:
    """A server, an app with an agent, and an operator; the two clocks agree until one is moved."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house = house
        self.clock = Clock()
        self.agent = ClockedAgent(house, folder / "agent", self.clock)
        self.shop = Shop(self.agent)
        self.folder = folder
        self.operator = Operator(house.url, house.key("replayer", "audit:read", "audit:export"))

    def source(self) -> str:
        self.shop.order({"run": "first"})
        (found,) = until(lambda: self.operator.listed("/api/v1/exchanges"))
        source: str = found["exchangeId"]
        return source

    def has_beaten(self) -> None:
        """Since now, and so its deadlines have been looked at, too."""
        for _ in range(2):
            self.house.clock.move(0.001)
            until(lambda: self._seen() == self.house.clock())

    def _seen(self) -> int:
        seen: int = self.operator.get("/api/v1/agents")["items"][0]["lastSeenAt"]
        return seen

    def end(self, replay: str) -> tuple[str, str, int]:
        """State and code of a replay that has ended, and how many records there are of it."""
        ended = self.operator.end_of(replay)
        return ended["state"], ended["code"], len(self.operator.records(replay))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with running(tmp_path / "data", timings=BEATING) as house:
        house.environment("staging")
        yield house


@pytest.fixture
def desk(house: House, tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(house, tmp_path)
    with closing(desk.operator), desk.agent:
        yield desk


@pytest.mark.parametrize(
    "seconds, state, code, runs",
    [
        (-HOUR, "completed", "", 1),
        (80, "completed", "", 1),
        (100, "refused", "expired", 0),
        (HOUR, "refused", "expired", 0),
    ],
)
def test_an_agent_whose_clock_differs_runs_no_command_that_has_expired_for_it(
    desk: Desk, seconds: float, state: str, code: str, runs: int
) -> None:
    source = desk.source()
    desk.clock.move(seconds)
    replay = desk.operator.asked(source, "r1")
    assert desk.end(replay) == (state, code, 2)
    assert desk.shop.ran["r1"] == runs


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_an_agents_clock_that_is_set_while_it_runs_changes_nothing(
    desk: Desk, seconds: float
) -> None:
    source = desk.source()
    desk.shop.hold()
    replay = desk.operator.asked(source, "r1")
    desk.shop.has_begun()
    desk.clock.move(seconds)
    desk.has_beaten()
    desk.shop.let_go()
    assert desk.end(replay) == ("completed", "", 2)
    assert desk.shop.ran["r1"] == 1


def test_a_servers_clock_that_is_set_ahead_ends_what_runs_and_nothing_else(desk: Desk) -> None:
    source = desk.source()
    desk.shop.hold()
    replay = desk.operator.asked(source, "r1")
    desk.shop.has_begun()
    until(lambda: desk.operator.state(replay) == "running")
    desk.house.clock.move(HOUR)
    desk.house.run(sweep(desk.house.server))
    assert desk.end(replay) == ("expired", "not_finished", 2)
    desk.shop.let_go()
    until(lambda: desk.agent.status().refused == 1)  # its exchange, which came too late
    again = desk.operator.asked(source, "r2")
    assert desk.end(again) == ("completed", "", 2)
    assert (desk.shop.ran["r1"], desk.shop.ran["r2"]) == (1, 1)
    assert desk.operator.verify(desk.folder / "export")


def test_a_servers_clock_that_is_set_back_keeps_what_runs_and_the_audit_log(desk: Desk) -> None:
    source = desk.source()
    desk.shop.hold()
    replay = desk.operator.asked(source, "r1")
    desk.shop.has_begun()
    desk.house.clock.move(-HOUR)
    desk.house.run(sweep(desk.house.server))
    desk.shop.let_go()
    assert desk.end(replay) == ("completed", "", 2)
    # From now on commands have expired, for an agent whose clock is an hour ahead.
    again = desk.operator.asked(source, "r2")
    assert desk.end(again) == ("refused", "expired", 2)
    assert (desk.shop.ran["r1"], desk.shop.ran["r2"]) == (1, 0)
    assert desk.operator.verify(desk.folder / "export")


def _sign_in(house: House, password: str = PASSWORD) -> httpx.Response:
    asked = {"email": "ada@example.com", "password": password}
    return house.client().post("/api/v1/session", json=asked)


def test_nobody_is_locked_out_by_a_clock_that_is_set_back(house: House) -> None:
    house.user("ada@example.com")
    for _ in range(3):
        assert _sign_in(house).status_code == 201
    house.clock.move(-HOUR)
    assert _sign_in(house).status_code == 201
    house.clock.move(-60)
    assert _sign_in(house).status_code == 201


@pytest.mark.parametrize("seconds", [-HOUR, -YEAR])
def test_a_clock_that_is_set_back_gives_whoever_guesses_one_guess(
    house: House, seconds: float
) -> None:
    house.user("ada@example.com")
    while code_of(_sign_in(house, "wrong")) == (401, "credentials_wrong"):
        pass
    assert code_of(_sign_in(house)) == (429, "rate_limited")
    house.clock.move(seconds)
    assert code_of(_sign_in(house, "wrong")) == (401, "credentials_wrong")
    told = _sign_in(house, "wrong")
    assert code_of(told) == (429, "rate_limited")
    house.clock.move(float(told.headers["Retry-After"]))
    assert _sign_in(house).status_code == 201


@pytest.mark.parametrize(
    "opened, used, status",
    [(0, -30, 200), (0, HOUR, 200), (HOUR, 0, 401), (YEAR, 0, 401), (0, 12 * HOUR, 401)],
)
def test_a_session_lasts_no_longer_for_a_clock_that_was_wrong(
    house: House, opened: float, used: float, status: int
) -> None:
    """Opened when the clock was ``opened`` seconds off, used when it is ``used`` seconds off."""
    house.user("ada@example.com")
    house.clock.move(opened)
    cookie = _sign_in(house).cookies["reenact"]
    house.clock.move(used - opened)
    assert house.client(Cookie=f"reenact={cookie}").get("/api/v1/session").status_code == status


def test_the_limit_of_a_minute_is_one_of_this_minute(tmp_path: Path) -> None:
    with running(tmp_path / "data", limits=Limits(replays_per_minute=2)) as house:
        house.environment("staging")
        agent = Puppet(house)
        agent.register()
        agent.ingest(exchange())
        operator = house.client(house.key("replayer"))
        for _ in range(2):
            assert [ask_for(operator).status_code for _ in range(3)] == [202, 202, 429]
            house.clock.move(-HOUR)
            agent.heartbeat()
