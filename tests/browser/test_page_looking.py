"""What there is to look at: an exchange step by step, agents and their health, recordings of runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.exchange.model import Change, Processor
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk
from tests.browser.recording import record
from tests.server.house import START
from tests.server.traffic.puppet import exchange, packed

STEPS = (
    Processor(processor_id="check", seq=1, started_at=START, duration=0.5),
    Processor(
        processor_id="discount",
        seq=2,
        started_at=START + 1,
        duration=0.5,
        changes=(
            Change(op="replace", path="/body/amount", before=5, after=4),
            Change(op="add", path="/headers/x-discount", after="ten percent"),
        ),
    ),
)


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    with desk(tmp_path, page) as found:
        found.sign_in()
        yield found


def test_a_step_shows_the_payload_before_and_after_it(ada: Desk) -> None:
    page = ada.page.page
    ada.agent.ingest(exchange(processors=STEPS))
    ada.go("/exchanges/ex-1")
    assert ada.page.texts(".row > summary .name") == ["check", "discount"]
    row = page.locator("details.row", has_text="discount")
    row.locator("summary").first.click()
    assert row.locator(".path").all_inner_texts() == ["/body/amount", "/headers/x-discount"]
    row.locator("summary", has_text="Payload before and after").click()
    gone, new = (row.locator(f".lines td.{one}").all_inner_texts() for one in ("del", "ins"))
    assert '    "amount": 5' in gone
    assert {'    "amount": 4', '    "x-discount": "ten percent"'} < {*new}


def test_a_part_of_an_exchange_leads_to_the_whole(ada: Desk) -> None:
    whole = f"ex_{7:032x}"
    why = f"it ran inside of exchange {whole}: replay that one"
    ada.agent.ingest(exchange(whole), exchange("part", not_replayable=why))
    ada.go("/exchanges/part")
    page = ada.page.page
    assert page.get_by_role("link", name="Edit and replay").count() == 0
    page.get_by_role("link", name=whole).click()
    page.get_by_role("link", name="Edit and replay").wait_for()
    assert ada.place == f"/exchanges/{whole}"


def test_agents_say_how_they_are(ada: Desk) -> None:
    assert ada.agent.heartbeat(spooled=3, dropped=1).status_code < 300
    ada.go("/agents")
    row = ada.page.page.locator("tr", has_text="shop in staging")
    assert row.locator("td[data-head=Health]").inner_text().split() == ["1", "lost", "3", "waiting"]
    other = ada.page.page.locator("tr", has_text="shop in live")
    assert other.locator("td[data-head=Health]").inner_text() == "fine"
    row.get_by_text("1 route").click()
    row.get_by_role("link", name="orders").click()
    ada.page.page.wait_for_url("**/exchanges?app=shop&route=orders")


def test_a_run_that_was_pushed_is_found_viewed_and_taken_home(ada: Desk, tmp_path: Path) -> None:
    record(tmp_path / "run")
    data = packed(tmp_path / "run")
    client = ada.house.client(ada.house.key("capture:write"))
    headers = {"Content-Type": "application/octet-stream"}
    made = client.post("/api/v1/captures", content=data, headers=headers).json()
    page = ada.page.page
    ada.go("/recordings")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_bytes() == data
    page.locator("td[data-head=Run] a").click()
    page.wait_for_url(f"**/recordings/{made['captureId']}/view")
    page.locator("#list li", has_text="openai/gpt-5").first.click()
    page.locator("#detail .said.user").first.wait_for()
    assert "tokens in" in page.locator("#facts").inner_text()
    page.get_by_role("link", name="Recordings").click()
    page.wait_for_url("**/recordings")
