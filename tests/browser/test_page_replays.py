"""The list of replays: filtered from the page, and found again by its address."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from tests.browser.desk import EMAIL, Desk
from tests.server.traffic.puppet import result

DIVERGED = "diverged the result: /body/total differs"


def verdicts(ada: Desk) -> list[str]:
    return ada.page.texts("td[data-head=Verdict]")


def asked(ada: Desk) -> dict[str, list[str]]:
    """What the address says."""
    return parse_qs(urlsplit(ada.place).query)


def search(ada: Desk) -> None:
    """It is the same page, with another address."""
    before = ada.place
    ada.page.page.get_by_role("button", name="Search").click()
    ada.page.page.wait_for_url(lambda url: not url.endswith(before))


def test_replays_are_filtered_and_the_address_holds_the_question(ada: Desk) -> None:
    page = ada.page.page
    for came in ({}, {"result": result(11)}):
        ada.house.clock.move(1)
        ada.ask_for_replay()
        ada.go("/replays")  # the page of a replay loads itself anew when that has ended
        ada.run_it(**came)
    ada.house.clock.move(1)
    waiting = ada.ask_for_replay()
    ada.go("/replays")
    assert verdicts(ada) == ["", DIVERGED, "identical"]

    page.get_by_label("Verdict").select_option("diverged")
    page.get_by_label("App").fill("shop")
    search(ada)
    assert (asked(ada), verdicts(ada)) == ({"verdict": ["diverged"], "app": ["shop"]}, [DIVERGED])
    assert page.get_by_label("Verdict").input_value() == "diverged"
    assert page.get_by_label("App").input_value() == "shop"

    page.get_by_label("Verdict").select_option("all")
    page.get_by_label("Environment").fill("staging")
    page.get_by_label("State").select_option("requested")
    page.get_by_text("More filters").click()
    page.get_by_label("Route").fill("orders")
    page.get_by_label("By", exact=True).fill(EMAIL)
    search(ada)
    question = {"app": ["shop"], "environment": ["staging"], "state": ["requested"]}
    assert asked(ada) == {**question, "route": ["orders"], "by": [EMAIL]}
    assert page.locator("a.route").get_attribute("href") == f"/replays/{waiting}"
    assert page.get_by_label("By", exact=True).input_value() == EMAIL
    assert page.get_by_label("By", exact=True).is_visible()

    place = ada.place
    page.get_by_label("By", exact=True).fill("nobody@example.com")
    search(ada)
    assert "No replays match these filters." in ada.text()
    ada.go(place)
    assert page.locator("tbody tr").count() == 1
    page.get_by_role("link", name="Clear").click()
    page.wait_for_url("**/replays")
    assert verdicts(ada) == ["", DIVERGED, "identical"]


def test_no_verdict_takes_no_room_on_a_phone(ada: Desk) -> None:
    ada.ask_for_replay()
    ada.page.page.set_viewport_size({"width": 390, "height": 800})
    ada.go("/replays")
    row = ada.page.page.locator("tbody tr").inner_text()
    assert "requested" in row
    assert "–" not in row


def test_an_address_with_a_verdict_that_is_none_says_which_there_are(ada: Desk) -> None:
    for name, first in (("verdict", "identical"), ("state", "requested")):
        ada.go(f"/replays?{name}=nonsense")
        assert f"{name.capitalize()} is one of {first}, " in ada.text()
