"""An empty machine, a server, a FastAPI app with three more lines, and an order that is replayed with
another amount and proven: all of it with the commands that people type, in processes of their own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import httpx
import pytest

from tests.integration.exchange.apps import Upstream
from tests.integration.exchange.desks import EMAIL, PATIENCE, Desk, Program
from tests.server.house import PASSWORD

SHOP = Path(__file__).resolve().parents[3] / "demo" / "shop.py"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.slow
def test_an_order_is_recorded_replayed_with_another_amount_and_proven(
    desk: Desk, upstream: Upstream
) -> None:
    shutil.copy(SHOP, desk.folder / "shop.py")
    with desk.program("reenact", "serve", "--port", "0", "--data", "server") as server:
        link = server.until(r"http://127\.0\.0\.1:\d+/setup\?token=\w+")
        words = ("login", link, "--email", EMAIL, "--password-stdin")
        assert f"signed in to {link.partition('/setup')[0]}" in desk.run(*words, stdin=PASSWORD)
        desk.run("environment", "set", "staging", "non-production")
        key = desk.listed("key", "add", "shop", "--app", "shop", "--environment", "staging")[0]
        connected = {
            "REENACT_SERVER": link.partition("/setup")[0],
            "SHOP_AGENT_KEY": key["key"],
            "MODEL_SERVER": upstream.url,
        }
        with desk.program("uvicorn", "shop:app", "--port", "0", **connected) as shop:
            _order(shop, upstream)
            _look_and_replay(desk, upstream)
            _prove(desk)
            shop.stop()
        assert server.stop() == 0
    _verify_without_a_server(desk)


def _order(shop: Program, upstream: Upstream) -> None:
    url = shop.until(r"http://127\.0\.0\.1:\d+")
    order = {"item": "tea", "amount": 100}
    answer = httpx.post(f"{url}/orders", json=order, trust_env=False, timeout=PATIENCE)
    assert answer.json()["payment"]["sent"] == '{"amount":100}'
    assert upstream.asked == ["/payments"]


def _look_and_replay(desk: Desk, upstream: Upstream) -> None:
    found = desk.until_listed("exchange", "ls")
    assert (found["app"], found["environment"], found["routeId"], found["status"]) == (
        "shop",
        "staging",
        "POST /orders",
        "completed",
    )
    (agent,) = desk.listed("agents")
    assert (agent["app"], agent["state"]) == ("shop", "online")
    shown = desk.run("exchange", "show", found["exchangeId"], "--calls")
    assert re.search(r"1  check  .*\n +2  pay  ", shown)
    assert f"POST {upstream.url}/payments -> 200  by 2" in shown

    assert desk.run("exchange", "replay", "last").startswith("identical\n")
    replayed = desk.run("exchange", "replay", found["exchangeId"], "--set", "body.amount=5", code=1)
    assert replayed.startswith("diverged: 4 changed\n")
    assert "  ~ /body/amount\n      - 100\n      + 5\n" in replayed
    assert f"  ~ POST {upstream.url}/payments  (recorded answer)\n" in replayed
    assert "  /request/body/amount is 5, recorded 100\n" in replayed
    assert desk.run("exchange", "diff", "last", code=1) == replayed
    assert desk.run("exchange", "replay", "last", "--set", "body.amount=501", code=1).startswith(
        "regressed: "
    )
    assert upstream.asked == ["/payments"]
    assert len(desk.listed("exchange", "ls", "--replays", "none")) == 1
    assert len(desk.listed("exchange", "ls", "--replays", "only")) == 3


def _prove(desk: Desk) -> None:
    asked = desk.listed("audit", "ls", "--action", "replay.requested")
    done = desk.listed("audit", "ls", "--action", "replay.finished")
    assert [one["replayId"] for one in asked] == [one["replayId"] for one in done]
    assert len(asked) == 3
    desk.run("audit", "key", "-o", "key.pub")
    assert ": verified\n" in desk.run("audit", "verify", "--key", "key.pub")
    desk.run("audit", "export", "-o", "audit.tar")
    desk.run("exchange", "prove", asked[1]["replayId"], "-o", "replay.json")


def _verify_without_a_server(desk: Desk) -> None:
    said = desk.run("audit", "verify", "replay.json", "--key", "key.pub")
    assert re.match(r"replay rpl_\w+ of ex_\w+: verified\n", said)
    assert '  replayed POST /orders {"item":"tea","amount":5}\n' in said
    assert "  proven: the output in this file is the output of the replay\n" in said
    desk.run("audit", "verify", "audit.tar", "--key", "key.pub")
    proof = desk.folder / "replay.json"
    assert b"tea" in proof.read_bytes()
    proof.write_bytes(proof.read_bytes().replace(b"tea", b"gin"))
    desk.run("audit", "verify", "replay.json", "--key", "key.pub", code=3)
