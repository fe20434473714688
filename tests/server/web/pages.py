"""Helpers that read pages and submit their forms."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import httpx

from tests.server.house import House
from tests.server.traffic.puppet import Puppet, exchange

__all__ = ["HTML", "Form", "agent_of", "offered", "send", "words"]

HTML = {"Accept": "text/html"}


def words(html: str) -> str:
    return " ".join(re.sub("<[^>]*>", " ", html.partition("<main")[2]).split())


def agent_of(house: House, name: str) -> Puppet:
    house.environment("staging")
    agent = Puppet(house)
    assert agent.register(name=name).status_code == 200
    agent.ingest(exchange(agent_id="agent-1"))
    return agent


class Form(HTMLParser):
    """What a browser would send back from a page with one form that changes something."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, str] = {}
        self.tags: set[str] = set()
        self._inside = False
        self.feed(answer.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        if tag == "form" and found["method"] == "post":
            self.action, self._inside = found["action"] or "", True
        if tag == "input" and self._inside:
            self.fields[found["name"] or ""] = found["value"] or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False


def send(client: httpx.Client, form: Form, **typed: str) -> httpx.Response:
    return client.post(
        form.action, data=form.fields | typed, headers={"Sec-Fetch-Site": "same-origin"}
    )


def offered(html: str, name: str) -> list[str]:
    """Return the suggestions for a field."""
    found = re.search(f'<datalist id="known-{name}">(.*?)</datalist>', html)
    return [unescape(one) for one in re.findall('value="([^"]*)"', found[1])] if found else []
