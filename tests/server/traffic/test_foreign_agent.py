from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.server.house import House
from tests.server.traffic.puppet import ask_for

PROGRAM = Path(__file__).with_name("foreign_agent.py")


@pytest.mark.parametrize("edited", [False, True])
def test_an_agent_written_from_the_protocol_page_completes_a_replay(
    house: House, edited: bool
) -> None:
    key = house.agent_key("shop", "staging")
    operator = house.client(house.key("replayer", "replay:live"))
    command = [sys.executable, str(PROGRAM), house.url, key]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        patch = [{"op": "replace", "path": "/body/amount", "value": 7}] if edited else []
        more: dict[str, Any] = {"patch": patch} if edited else {}
        asked = ask_for(operator, boundaries="live", reason="to see it run", **more)
        assert asked.status_code == 202, asked.text
        assert process.wait(60) == 0
    found = operator.get(f"/api/v1/replays/{asked.json()['replayId']}").json()
    assert (found["state"], found["exchangeId"]) == ("completed", "ex-2")
    ended = operator.get("/api/v1/exchanges/ex-2").json()
    assert ended["result"]["body"]["text"] == ('{"total": 14}' if edited else '{"total": 10}')
