"""A server with traffic in it, and somebody who looks at it with a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from reenact.exchange.model import (
    Body,
    Change,
    ErrorFacts,
    Exchange,
    Payload,
    Processor,
    RecordingRef,
    Trace,
)
from tests.browser.conftest import Page
from tests.browser.recording import HOSTILE, NAMED, record
from tests.server.house import PASSWORD, House, running
from tests.server.traffic.puppet import Puppet, exchange, named, packed

EVERYTHING = ("production replayer", "tenant admin", "platform admin")
EMAIL = "ada@example.com"


class Desk:
    """``page`` is the browser of somebody in ``house`` who may do everything; ``agent`` is in
    staging, ``live`` in production, and both do what a test says."""

    def __init__(self, house: House, page: Page) -> None:
        self.house = house
        self.page = page
        house.environment("staging")
        house.environment("live", "production")
        house.user(EMAIL, *EVERYTHING)
        self.agent = Puppet(house)
        self.live = Puppet(house, agent_id="agent-2", environment="live")
        for agent in (self.agent, self.live):
            assert agent.register(name=f"shop in {agent.environment}").status_code == 200

    def go(self, path: str) -> None:
        self.page.open(f"{self.house.url}{path}")

    def sign_in(self, email: str = EMAIL) -> None:
        self.go("/signin")
        form = self.page.page
        form.get_by_label("E-mail address").fill(email)
        form.get_by_label("Password").fill(PASSWORD)
        form.get_by_role("button", name="Sign in").click()
        form.wait_for_url(lambda url: "/signin" not in url)

    @property
    def place(self) -> str:
        """The path that is shown."""
        return self.page.page.url.removeprefix(self.house.url)

    def text(self) -> str:
        found: str = self.page.page.locator("main").inner_text()
        return found

    def ask_for_replay(self, exchange_id: str = "ex-1") -> str:
        """From the form, as it is. The id of the replay."""
        self.go(f"/exchanges/{exchange_id}/replay")
        self.page.page.get_by_role("button", name="Replay", exact=True).click()
        self.page.page.wait_for_url(re.compile("/replays/"))
        return self.place.rpartition("/")[2]

    def run_it(self, **changes: Any) -> None:
        """The agent in staging does what it was told last."""
        with self.agent.stream() as stream:
            command = self.agent.read_command(stream.next()["data"])
        self.agent.say(command.replay_id, "running")
        assert self.agent.run(command, **changes)[0]["status"] == "stored"


@contextmanager
def desk(folder: Path, page: Page, **more: Any) -> Iterator[Desk]:
    """A desk of one's own; nobody is signed in."""
    with running(folder / "data", **more) as house:
        yield Desk(house, page)


def hostile(folder: Path, exchange_id: str = "ex-1", **changes: Any) -> tuple[Exchange, bytes]:
    """An exchange whose every text is hostile, with the recording of a hostile run."""
    run = folder / "run"
    record(run)
    data = packed(run)
    evil = "".join(HOSTILE)
    values = {NAMED: HOSTILE, "deep": {evil: [evil]}}
    body = Body(type="json", text=msgspec.json.encode(values).decode(), content_type=evil)
    made = exchange(
        exchange_id,
        route_id=NAMED,
        revision=evil,
        code_version=evil,
        status="failed",
        error=ErrorFacts(type=NAMED, message=evil),
        start=Payload(headers=(("X-Evil", HOSTILE[2]),), body=body, properties=values),
        result=Payload(body=Body(type="text", text=evil), properties=values),
        not_replayable="",
        correlation_id=NAMED,
        trace=Trace(trace_id="1" * 32, span_id="2" * 16, state="a=b"),
        recording=RecordingRef(digest=named(data).digest, size=len(data), events=40),
        processors=_processors(evil, values),
    )
    return msgspec.structs.replace(made, **changes), data


def _processors(evil: str, values: Any) -> tuple[Processor, ...]:
    return (
        Processor(
            processor_id=NAMED,
            seq=1,
            started_at=1_790_000_000_000,
            duration=1.0,
            status="failed",
            error=ErrorFacts(type=NAMED, message=evil),
            changes=(
                Change(op="add", path=f"/body/{NAMED.replace('/', '~1')}x", after=evil),
                Change(op="replace", path="/headers/x-evil", before=HOSTILE[2], after=evil),
            ),
            branch=evil[:4_000],
            kind="choice",
        ),
        Processor(processor_id=evil[:500], seq=2, parent_seq=1, input=values, output=evil),
    )
