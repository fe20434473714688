"""The log as JSON: one object per line, and nothing in it that somebody sent."""

from __future__ import annotations

import logging

import msgspec
import pytest

from reenact.server.process.logs import JsonLines
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, exchange


def test_a_request_is_its_route_and_who_asked(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.environment("staging")
    agent = Puppet(house)
    agent.register()
    agent.ingest(exchange())
    with caplog.at_level(logging.INFO, "reenact.server"):
        viewer = house.client(house.key("viewer"))
        answer = viewer.get("/api/v1/exchanges/ex-1?secret=word", headers={"X-Secret": "word"})
        assert answer.status_code == 200
        assert viewer.get("/healthz").status_code == 200  # the one before is in the log by now
    lines = [JsonLines().format(record) for record in caplog.records]
    (line,) = (line for line in lines if "/exchanges/{id}" in line)
    said = msgspec.json.decode(line)
    assert said["route"] == "/api/v1/exchanges/{id}"
    assert (said["method"], said["status"], said["level"]) == ("GET", 200, "info")
    assert said["requestId"] == answer.headers["x-request-id"]
    assert said["who"].startswith("key_")
    assert set(said) == {
        "time", "level", "logger", "requestId", "method", "route", "status", "ms", "who",
    }  # fmt: skip
    assert "word" not in "".join(lines)


def test_an_error_is_its_type_and_place_and_not_its_words() -> None:
    try:
        raise ValueError("a value of somebody")
    except ValueError as error:
        record = logging.LogRecord(
            "reenact.server",
            logging.ERROR,
            __file__,
            1,
            "it failed",
            (),
            (type(error), error, None),
        )
    said = msgspec.json.decode(JsonLines().format(record))
    assert (said["message"], said["error"]["type"]) == ("it failed", "ValueError")
    assert "somebody" not in str(said)
