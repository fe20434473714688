"""A server in which every text that can be is hostile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reenact.exchange.model import Body, Payload
from tests.browser.conftest import Page
from tests.browser.desk import Desk, desk, hostile
from tests.browser.recording import NAMED, record
from tests.server.house import House
from tests.server.traffic.puppet import packed

__all__ = ["Haunted", "haunted"]

Haunted = tuple[Desk, dict[str, str]]


@contextmanager
def haunted(browser: Any, folder: Path) -> Iterator[Haunted]:
    """A desk at which somebody is signed in, and the ids of what is there, for
    :func:`tests.browser.places.path_of`."""
    context = browser.new_context(color_scheme="light")
    with desk(folder, Page(context.new_page())) as found:
        route = {"routeId": NAMED, "revision": NAMED, "processors": [NAMED]}
        found.agent.register(name=NAMED, version=NAMED, routes=[route])
        one, data = hostile(folder)
        differs = Payload(body=Body(type="text", text=f"otherwise {NAMED}"))
        other, more = hostile(folder / "again", "other", processors=(), result=differs)
        for made, blob in ((one, data), (other, more)):
            [kept] = found.agent.ingest(made, blobs=(blob,))
            assert kept["status"] == "stored"
        found.sign_in()
        replay = found.ask_for_replay()
        found.page.page.get_by_text("Waiting for the agent").wait_for()
        found.run_it(route_id=NAMED, recording=one.recording, processors=one.processors[1:])
        found.page.page.locator(".verdict").wait_for()
        yield found, {"replay": replay, "waiting": found.ask_for_replay(), **_more(found, folder)}
    context.close()


def _more(found: Desk, folder: Path) -> dict[str, str]:
    house = found.house
    replayer = house.client(house.key("replayer"))
    batch = replayer.post(
        "/api/v1/batches", json={"search": {"text": "ex-1"}, "reason": NAMED}
    ).json()
    saved = replayer.put("/api/v1/searches/mine", json={"text": NAMED})
    assert saved.status_code in (200, 201), saved.text
    guest = house.client(house.key("tenant admin")).post(
        "/api/v1/users", json={"email": "guest@example.com"}
    )
    [invite] = parse_qs(urlsplit(guest.json()["link"]).query)["token"]
    return {
        "batch": batch["batchId"],
        "capture": _push(house, folder),
        "invite": invite,
        "setup": house.setup_token,
    }


def _push(house: House, folder: Path) -> str:
    record(folder / "pushed")
    headers = {"Content-Type": "application/octet-stream"}
    pushed = house.client(house.key("capture:write")).post(
        "/api/v1/captures", content=packed(folder / "pushed"), headers=headers
    )
    assert pushed.status_code == 201
    return str(pushed.json()["captureId"])
