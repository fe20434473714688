"""An operator's way through the pages, from signing in to the proof."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact.audit.keys import Key
from reenact.audit.proof import check_proof
from reenact.exchange.model import Body, Payload, Trace
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk
from tests.server.traffic.puppet import exchange


@pytest.fixture
def ada(page: Page, tmp_path: Path) -> Iterator[Desk]:
    """Signed in, with three exchanges."""
    with desk(tmp_path, page) as found:
        found.agent.ingest(
            exchange(
                "ex-1", correlation_id="order-7", trace=Trace(trace_id="1" * 32, span_id="2" * 16)
            ),
            exchange("ex-2", status="failed", correlation_id="order-8"),
        )
        found.live.ingest(exchange("ex-3", correlation_id="order-7"))
        found.sign_in()
        yield found


def test_signing_in_leads_to_where_one_wanted_to_go(page: Page, tmp_path: Path) -> None:
    with desk(tmp_path, page) as found:
        found.go("/exchanges?status=failed")
        assert found.place == "/signin?next=%2Fexchanges%3Fstatus%3Dfailed"
        page.page.get_by_label("E-mail address").fill("ada@example.com")
        page.page.get_by_label("Password").fill("wrong")
        page.page.get_by_role("button").click()
        page.page.get_by_role("alert").wait_for()
        assert "wrong" in found.text()
        found_password = page.page.get_by_label("Password")
        found.page.page.get_by_label("E-mail address").fill("ada@example.com")
        found_password.fill("-".join(["correct", "horse", "battery"]))
        page.page.get_by_role("button").click()
        page.page.wait_for_url(f"{found.house.url}/exchanges?status=failed")
        page.page.get_by_role("button", name="Sign out").click()
        page.page.wait_for_url("**/signin")
        found.go("/exchanges")
        assert found.place.startswith("/signin")


def test_nobody_is_sent_to_another_site_after_signing_in(page: Page, tmp_path: Path) -> None:
    with desk(tmp_path, page) as found:
        for way in ("//evil.example", "/\\evil.example", "https://evil.example/"):
            found.go(f"/signin?next={way}")
            assert page.count("input[name=next]") == 0


def test_the_address_holds_what_was_looked_for(ada: Desk) -> None:
    page = ada.page.page
    assert ada.page.count("table.list tbody tr") == 3
    page.keyboard.press("/")
    page.keyboard.type("order-7")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("text=order-7"))
    assert ada.page.count("table.list tbody tr") == 2
    page.get_by_label("Environment").fill("live")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url(re.compile("environment=live"))
    assert page.get_by_label("Search", exact=True).input_value() == "order-7"
    assert ada.page.count("table.list tbody tr") == 1
    page.reload()
    assert ada.page.texts("table.list .badge.production") == ["live"]
    ada.go("/exchanges?from=2090-01-01T00:00")
    assert "No exchange matches these filters." in ada.text()


def test_a_long_history_comes_in_pieces(ada: Desk) -> None:
    ada.agent.ingest(*(exchange(f"more-{number:03d}") for number in range(70)))
    ada.go("/exchanges?app=shop")
    assert ada.page.count("table.list tbody tr") == 50
    ada.page.page.get_by_role("link", name="Older").click()
    ada.page.page.wait_for_url(re.compile("cursor="))
    assert "app=shop" in ada.place
    assert ada.page.count("table.list tbody tr") == 23
    ada.page.page.get_by_role("link", name="Newest").click()
    ada.page.page.wait_for_url(lambda url: "cursor" not in url)
    assert ada.page.count("table.list tbody tr") == 50


def test_an_edit_is_checked_while_it_is_typed(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1")
    page.get_by_role("link", name="Edit and replay").click()
    page.wait_for_url("**/replay?form=*")
    body = page.get_by_label("Content (base64 for bytes)")
    assert body.input_value() == '{"amount": 5}'
    body.fill('{\n  "amount": 5,,\n}')
    mistake = page.get_by_role("link", name="body, line 2, column 15")
    mistake.wait_for()
    assert body.get_attribute("aria-invalid") == "true"
    below = page.locator(f"#{body.get_attribute('aria-describedby')}")
    assert below.inner_text().startswith("line 2, column 15: not JSON")
    assert "staging is non-production" in page.locator(".environment").inner_text()
    mistake.click()
    assert page.evaluate("document.activeElement.selectionStart") == 16
    body.fill('{"amount": 8}')
    page.get_by_text("Patch").click()
    assert '"path": "/body/amount"' in page.locator("#plan pre").inner_text()
    assert body.get_attribute("aria-invalid") is None
    assert not below.is_visible()
    assert ada.page.texts("#plan td.ins") == ['    "amount": 8']


def test_the_form_says_where_it_goes_and_by_which_right(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    assert "staging is non-production" in page.locator(".environment.safe").inner_text()
    assert "replay:execute" in page.locator(".environment").inner_text()
    page.locator("select[name=agent]").select_option("agent-2")
    page.locator(".environment.production").wait_for()
    said = page.locator("#plan").inner_text()
    assert "replay:execute:production" in said
    assert "A replay in production needs a reason" in said
    page.get_by_role("link", name="Give a reason").click()
    assert page.evaluate("document.activeElement.id") == "reason"
    page.get_by_label(re.compile("^Reason")).fill("it was asked for")
    page.locator("#plan .alert").wait_for(state="detached")
    page.get_by_label(re.compile("^live:")).check()
    page.locator("#plan .alert").wait_for()
    said = page.locator("#plan .denied").inner_text()
    assert "You do not have the permission replay:live in live for the app shop." in said
    assert "reenact user grant ada@example.com replay:live --environment live --app shop" in said
    replay = page.get_by_role("button", name="Replay", exact=True)
    assert replay.is_disabled()
    page.get_by_label(re.compile("^recorded:")).check()
    page.locator("#plan .denied").wait_for(state="detached")
    assert replay.is_enabled()


def test_from_an_edit_to_the_proof_of_it(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.get_by_label("Content (base64 for bytes)").fill('{"amount": 8}')
    page.get_by_label(re.compile("^Reason")).fill("wrong amount")
    page.get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_url(re.compile("/replays/"))
    page.get_by_text("Waiting for the agent").wait_for()
    answer = Payload(body=Body(type="json", text='{"total": 16}'), properties={"http.status": 200})
    ada.run_it(result=answer)
    page.locator(".verdict.diverged").wait_for()
    said = ada.text()
    assert "First difference" in said
    assert "/body/amount" in said
    assert page.locator(".lines td.ins").all_inner_texts() == ['    "amount": 8', '    "total": 16']
    with page.expect_download() as download:
        page.get_by_role("link", name="Proof").click()
    assert download.value.suggested_filename.endswith(".replay-proof.json")
    page.get_by_role("link", name="№").click()
    page.wait_for_url(re.compile(r"/audit/\d+"))
    assert "verified" in ada.text()
    assert "wrong amount" in ada.text()
    _verify_at_home(ada)


def test_what_was_opened_stays_open_while_a_replay_goes_on(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/exchanges/ex-1/replay")
    page.get_by_label("Content (base64 for bytes)").fill('{"amount": 8}')
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_text("Requested edit").click()
    with ada.agent.stream() as stream:
        command = ada.agent.read_command(stream.next()["data"])
    ada.agent.say(command.replay_id, "running")
    page.locator(".title .badge", has_text="running").wait_for()
    page.locator("li[aria-current=step]", has_text="Running").wait_for()
    assert page.locator("#live").inner_text() == "It runs."
    assert '"path": "/body/amount"' in page.locator("details[open] pre").inner_text()
    ada.agent.run(command)
    page.locator(".verdict").wait_for()


def _verify_at_home(ada: Desk) -> None:
    """With what the page gives out, and nothing else."""
    page, found = ada.page.page, {}
    for name in ("proof", "key"):
        with page.expect_download() as download:
            page.locator("main").get_by_role("link", name=name, exact=True).click()
        found[name] = Path(download.value.path()).read_bytes()
    key = Key.from_text(found["key"].decode().split()[1])
    _, envelope = check_proof(found["proof"], [key])
    assert envelope.action == "replay.requested"


def test_what_is_sent_unchanged_is_what_was_recorded(ada: Desk) -> None:
    text = '\n{"a":   1,\r\n "b": "\\u0000"}\n'
    start = Payload(headers=(("X-A", "1"), ("x-a", "2")), body=Body(type="json", text=text))
    ada.agent.ingest(exchange("exact", start=start))
    ada.ask_for_replay("exact")
    ada.page.page.get_by_text("Waiting for the agent").wait_for()
    with ada.agent.stream() as stream:
        command = ada.agent.read_command(stream.next()["data"])
    assert command.modified_payload is None


def test_what_was_called_by_what_is_drawn(ada: Desk) -> None:
    child = Trace(trace_id="1" * 32, span_id="4" * 16, parent_span_id="2" * 16)
    ada.agent.ingest(exchange("child", route_id="stock", trace=child, correlation_id="order-7"))
    ada.go("/exchanges/ex-1/related")
    names = ada.page.page.locator(".graph .name").all_text_contents()
    assert names == ["orders", "stock", "orders"]
    assert ada.page.count(".graph .edge.parent") == 1
    ada.page.page.locator(".graph a", has_text="stock").click()
    ada.page.page.wait_for_url("**/exchanges/child")


def test_the_audit_log_is_filtered_and_taken_home(ada: Desk) -> None:
    page = ada.page.page
    ada.go("/audit")
    page.get_by_label("Action").select_option("session.opened")
    page.get_by_role("button", name="Search").click()
    page.wait_for_url(re.compile("action=session.opened"))
    assert set(ada.page.texts("td[data-head=Did]")) == {"session.opened"}
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    assert b"session.opened" in Path(download.value.path()).read_bytes()
