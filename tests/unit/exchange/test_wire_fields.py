"""The wire format against docs/reference/protocol.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reenact.exchange import model

PAGE = Path(__file__).parents[3] / "docs/reference/protocol.md"
LEFT_OUT = {"Change": {"before", "after"}, "Processor": {"input", "output"}}
"""The page says so: there is no value, which is not the same as null."""

_DIGEST = "sha256:" + "0" * 64
_START: dict[str, Any] = {"startedAt": 1, "start": {}}
LEAST: dict[str, dict[str, Any]] = {
    "Body": {},
    "Payload": {},
    "ErrorFacts": {"type": "ValueError"},
    "Change": {"op": "add", "path": "/body"},
    "Processor": {"processorId": "price", "seq": 1},
    "Trace": {"traceId": "0" * 32, "spanId": "0" * 16},
    "RecordingRef": {"digest": _DIGEST, "size": 1},
    "DriverUse": {"name": "psycopg"},
    "Containment": {},
    "ReplayOf": {"replayId": "rep-1", "sourceExchangeId": "ex-1"},
    "Exchange": {"exchangeId": "ex-1", "routeId": "orders", **_START},
    "Route": {"routeId": "orders", "revision": "r1"},
    "Registration": {"protocol": 1, "agentId": "a-1", "app": "shop", "environment": "dev"},
    "Registered": {"agentId": "a-1", "tenant": "t", "epoch": 1, "commandKey": "k"},
    "Heartbeat": {"epoch": 1},
    "ReplaySource": {"payload": {}},
    "StateReport": {"state": "running", "epoch": 1},
}


@pytest.mark.parametrize("name", LEAST)
def test_fields_with_default_values_are_sent_and_documented(name: str) -> None:
    kind = getattr(model, name)
    fields = set(kind.__struct_encode_fields__)
    sent = msgspec.json.decode(msgspec.json.encode(msgspec.convert(LEAST[name], kind)))
    assert sent.keys() == fields - LEFT_OUT.get(name, set())
    documented = set(re.findall(r"`(\w+)`", PAGE.read_text("utf-8")))
    assert fields <= documented
