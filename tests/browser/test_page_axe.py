"""Everybody can read every page that the server has, and what a form leads to: axe finds nothing, nor
do we."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser.desk import Desk
from tests.browser.haunted import Haunted, haunted
from tests.browser.places import ALL, PLACES, path_of, routes
from tests.browser.reading import BOTH, SCREENS, Screen, flaws_of, look_at, unfold, violations_of
from tests.browser.recording import NAMED
from tests.conftest import SOAK

LOOKS = SCREENS if SOAK else BOTH


@pytest.fixture(scope="module")
def evil(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Haunted]:
    with haunted(browser, tmp_path_factory.mktemp("evil")) as found:
        yield found


def test_no_page_is_forgotten() -> None:
    assert routes() == set(PLACES)


def test_every_page_is_the_one_that_is_meant(evil: Haunted) -> None:
    """One that is not there is easily read, and obeys nothing."""
    desk, ids = evil
    found = {}
    for place in ALL:
        answer = desk.page.page.goto(f"{desk.house.url}{path_of(place, ids)}")
        found[place] = answer.status
    refused = {place: status for place, status in found.items() if status != 200}
    assert refused == {
        "/setup?token=used": 410,
        "/invite?token=used": 410,
        "/signin/oidc": 404,
        "/signin/oidc/callback": 404,
        "/exchanges?from=never": 422,
        "/exchanges/nothing": 404,
    }


@pytest.mark.parametrize("screen", LOOKS, ids=["-".join(map(str, one)) for one in LOOKS])
def test_every_page_can_be_read_by_everybody(evil: Haunted, screen: Screen) -> None:
    desk, ids = evil
    page = desk.page.page
    look_at(page, screen)
    found = {}
    for place in ALL:
        desk.go(path_of(place, ids))
        unfold(page)
        flaws = [] if place.endswith("/view") else flaws_of(page)
        found[place] = flaws + violations_of(page)
    assert {place: those for place, those in found.items() if those} == {}


def _wrong_password(ada: Desk) -> None:
    page = ada.page.page
    page.context.clear_cookies()
    ada.go("/signin")
    page.get_by_label("E-mail address").fill("nobody@example.com")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("alert").wait_for()


def _ended_session(ada: Desk) -> None:
    ada.go("/exchanges/ex-1/replay")
    ada.page.page.context.clear_cookies()
    ada.page.page.get_by_role("button", name="Replay", exact=True).click()
    ada.page.page.get_by_text("session has ended").first.wait_for()


def _mistake(ada: Desk) -> None:
    ada.go("/exchanges/ex-1/replay")
    ada.page.page.locator("#body").fill("{,}")
    ada.page.page.locator("input[name=header-value]").last.fill("of no name")
    ada.page.page.locator("input[aria-invalid]").wait_for()


def _production(ada: Desk) -> None:
    ada.go("/exchanges/ex-1/replay")
    ada.page.page.locator("select[name=agent]").select_option("agent-2")
    ada.page.page.locator("#body").fill('{"amount": 8}')
    ada.page.page.locator(".environment.production").wait_for()


def _new_key(ada: Desk) -> None:
    ada.go("/keys")
    form = ada.page.page.locator("section", has_text="A key for a program")
    form.get_by_label("Name", exact=True).fill("reports")
    form.get_by_role("button").click()
    ada.page.page.locator(".once").wait_for()


def _new_key_of_an_agent(ada: Desk) -> None:
    ada.go("/keys")
    form = ada.page.page.locator("section", has_text="A key for an agent")
    for label, text in (("Name", "till"), ("App", "bank"), ("Environment", "elsewhere")):
        form.get_by_label(label, exact=True).fill(text)
    form.get_by_role("button").click()
    ada.page.page.get_by_role("link", name="its kind is set").wait_for()


def _refused_replay(ada: Desk) -> None:
    replay = ada.ask_for_replay()
    with ada.agent.stream() as stream:
        ada.agent.read_command(stream.next()["data"])
    ada.agent.say(replay, "refused", code="route_unknown", message=NAMED)
    ada.page.page.get_by_role("link", name="To the form").wait_for()


def _new_link(ada: Desk) -> None:
    ada.go("/people")
    ada.page.page.get_by_label("E-mail address").fill("bob@example.com")
    ada.page.page.get_by_role("button", name="Invite", exact=True).click()
    ada.page.page.locator(".once").wait_for()


def _running_batch(ada: Desk) -> None:
    ada.go("/batches/new?text=ex-1")
    ada.page.page.get_by_role("button", name="Plan it").click()
    ada.page.page.get_by_role("button", name=re.compile(r"^Replay \d")).click()
    ada.page.page.get_by_text(re.compile("[1-9] under way|It waits")).wait_for()


STATES: tuple[Callable[[Desk], None], ...] = (
    _wrong_password,
    _ended_session,
    _mistake,
    _production,
    _new_key,
    _new_key_of_an_agent,
    _refused_replay,
    _new_link,
    _running_batch,
)


@pytest.mark.parametrize("lead", STATES, ids=lambda one: str(one.__name__).strip("_"))
def test_what_a_form_leads_to_can_be_read_by_everybody(
    evil: Haunted, lead: Callable[[Desk], None]
) -> None:
    ada, _ = evil
    page = ada.page.page
    try:
        lead(ada)
        for screen in LOOKS if SOAK else [LOOKS[STATES.index(lead) % len(LOOKS)]]:
            look_at(page, screen)
            assert violations_of(page) + flaws_of(page) == []
    finally:
        page.context.clear_cookies()
        ada.sign_in()
