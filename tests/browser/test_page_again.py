"""Going back to a form that was sent, and pressing its button again."""

from __future__ import annotations

import re

from tests.browser.desk import Desk
from tests.browser.reading import flaws_of

SENT = "This form was already sent."


def press(ada: Desk) -> None:
    ada.page.page.get_by_role("button", name="Replay", exact=True).click()


def asked(ada: Desk) -> int:
    return len(ada.house.records("replay.requested"))


def test_the_same_form_is_the_same_replay(ada: Desk) -> None:
    page = ada.page.page
    mine = ada.ask_for_replay()
    assert SENT not in ada.text()
    page.go_back()
    page.get_by_text(SENT).wait_for()
    press(ada)
    page.wait_for_url(re.compile(f"/replays/{mine}"))
    page.get_by_text(SENT).wait_for()
    assert flaws_of(page) == []
    assert asked(ada) == 1
    page.get_by_role("link", name="Make a new replay").click()
    page.wait_for_url(re.compile("/exchanges/ex-1/replay"))
    assert SENT not in ada.text()
    press(ada)
    page.wait_for_url(re.compile("/replays/"))
    assert asked(ada) == 2
    assert mine not in ada.place


def test_a_form_that_was_changed_since_is_asked_about(ada: Desk) -> None:
    page = ada.page.page
    mine = ada.ask_for_replay()
    page.go_back()
    page.get_by_text(SENT).wait_for()
    page.locator("#body").fill('{"amount": 7}')
    press(ada)
    page.get_by_text("Its content has changed since then").wait_for()
    assert page.get_by_role("link", name="Look at the replay").get_attribute("href") == (
        f"/replays/{mine}"
    )
    assert page.locator("#body").input_value() == '{"amount": 7}'
    assert asked(ada) == 1
    press(ada)
    page.wait_for_url(re.compile("/replays/"))
    assert asked(ada) == 2
    assert mine not in ada.place


def test_a_form_that_was_refused_is_sent_later_under_the_same_key(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    key = page.locator("[name=once]").get_attribute("value")
    page.locator("#body").fill("{")
    press(ada)
    page.get_by_role("alert").first.wait_for()
    assert page.locator("[name=once]").get_attribute("value") == key
    page.locator("#body").fill('{"amount": 8}')
    press(ada)
    page.wait_for_url(re.compile("/replays/"))
    assert SENT not in ada.text()
    assert asked(ada) == 1
