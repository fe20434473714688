"""From an empty server to the first exchange, with nothing but what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.browser.conftest import Page
from tests.browser.reading import BOTH, flaws_of, look_at, violations_of
from tests.server.house import PASSWORD, House, running

APP = """\
import asyncio

import httpx
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route


async def hello(request):
    return PlainTextResponse("hello")


app = Starlette(routes=[Route("/hello", hello)])
{lines}

async def ask():
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop.example") as client:
        print((await client.get("/hello")).text)


asyncio.run(ask())
agent.close()
"""


def set_up(house: House, page: Page) -> None:
    page.open(f"{house.url}/setup?token={house.setup_token}")
    page.page.get_by_label("E-mail address").fill("ada@example.com")
    page.page.get_by_label(re.compile("Password")).fill(PASSWORD)
    page.page.get_by_role("button").click()
    page.page.wait_for_url("**/exchanges")


def test_what_the_pages_say_connects_an_app(page: Page, tmp_path: Path) -> None:
    with running(tmp_path / "data") as house:
        set_up(house, page)
        form = page.page
        assert "reenact[agent]" in form.locator(".connecting").inner_text()
        form.get_by_role("link", name="Make a key for its agent").click()
        agent = form.locator("section", has_text="A key for an agent")
        for label, text in (("Name", "till"), ("App", "bank"), ("Environment", "test")):
            agent.get_by_label(label, exact=True).fill(text)
        agent.get_by_role("button").click()
        key, lines = form.locator(".once pre").all_inner_texts()
        assert "test counts as production" in form.locator(".once").inner_text()
        program = tmp_path / "program.py"
        program.write_text(APP.format(lines=lines), encoding="utf-8")
        said = subprocess.run(
            [sys.executable, program],
            cwd=tmp_path,
            env={"REENACT_AGENT_KEY": key, "PATH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (said.returncode, said.stdout, said.stderr) == (0, "hello\n", "")
        form.get_by_role("link", name="History").click()
        form.get_by_role("link", name="GET /hello").click()
        form.get_by_role("heading", name="What happened").wait_for()
        assert page.count(".badge.production") == 1
        assert key not in form.content()


def test_an_empty_server_can_be_read_by_everybody(page: Page, tmp_path: Path) -> None:
    with running(tmp_path / "data") as house:
        set_up(house, page)
        for place in ("/exchanges", "/agents", "/replays", "/batches", "/searches", "/noise"):
            page.open(f"{house.url}{place}")
            for screen in BOTH:
                look_at(page.page, screen)
                assert violations_of(page.page) + flaws_of(page.page) == [], place


def test_what_an_environment_is_is_said_where_the_key_was_made(page: Page, tmp_path: Path) -> None:
    with running(tmp_path / "data") as house:
        set_up(house, page)
        form = page.page
        for kind in ("counts as production", ""):
            page.open(f"{house.url}/keys")
            agent = form.locator("section", has_text="A key for an agent")
            for label, text in (("Name", "till"), ("App", "bank"), ("Environment", "test")):
                agent.get_by_label(label, exact=True).fill(text)
            agent.get_by_role("button").click()
            said = form.locator(".once").inner_text()
            assert ("counts as production" in said) == bool(kind)
            if kind:
                form.get_by_role("link", name="its kind is set").click()
                assert form.get_by_label("Name").input_value() == "test"
                form.get_by_role("button", name="Set").click()
                form.locator("tr", has_text="non-production").wait_for()


def test_who_may_make_no_keys_is_told_whom_to_ask(page: Page, tmp_path: Path) -> None:
    with running(tmp_path / "data") as house:
        house.user("vera@example.com", "viewer")
        page.open(f"{house.url}/signin")
        page.page.get_by_label("E-mail address").fill("vera@example.com")
        page.page.get_by_label("Password").fill(PASSWORD)
        page.page.get_by_role("button", name="Sign in").click()
        page.page.wait_for_url("**/exchanges")
        assert "Ask an administrator" in page.page.locator(".connecting").inner_text()
        page.open(f"{house.url}/agents")
        assert "No agent was heard of within a day." in page.page.locator("main").inner_text()
        assert page.page.get_by_role("link", name="Make a key for its agent").count() == 0
