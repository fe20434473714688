"""``GET /metrics``: numbers for Prometheus, and nothing that came in."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from reenact.server.meters import BUCKETS, METRICS, Meters, to_text
from tests.server.house import House
from tests.server.traffic.puppet import Puppet, ask_for, code_of, exchange

_LINE = re.compile(r"([a-z_]+)(\{.*\})? ([0-9.e+-]+)")


def samples(text: str) -> dict[str, float]:
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = _LINE.fullmatch(line)
            assert match, line
            found[match[1] + (match[2] or "")] = float(match[3])
    return found


def scraper(house: House) -> httpx.Client:
    return house.client(house.key("metrics:read"))


def test_numbers_of_a_replay_are_there(house: House) -> None:
    house.environment("staging")
    agent = Puppet(house)
    agent.register()
    agent.ingest(exchange(), exchange("ex-2"))
    agent.heartbeat(spooled=7)
    operator = house.client(house.key("replayer"))
    assert ask_for(operator).status_code == 202
    answer = scraper(house).get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = samples(answer.text)
    assert found['reenact_replays_open{state="requested"}'] == 1
    assert found["reenact_agents_online"] == 1
    assert found["reenact_agents_spooled"] == 7
    assert found["reenact_commands_pending"] == 1
    assert found['reenact_exchanges_ingested_total{status="stored"}'] == 2
    replay = operator.get("/api/v1/replays").json()["items"][0]["replayId"]
    operator.post(f"/api/v1/replays/{replay}/cancel")
    found = samples(scraper(house).get("/metrics").text)
    assert found['reenact_replays_ended_total{state="cancelled"}'] == 1
    assert found['reenact_replays_open{state="requested"}'] == 0
    asked = 'method="POST",route="/api/v1/exchanges/{id}/replays"'
    (total,) = (value for name, value in found.items() if asked in name and "_count" in name)
    assert total == 1


def test_what_somebody_sends_is_no_label(house: House) -> None:
    client = house.client()
    client.get("/secret-path-of-somebody")
    client.request("BREW", "/also-a-secret")
    text = scraper(house).get("/metrics").text
    assert "secret" not in text
    assert "BREW" not in text
    name = 'reenact_http_requests_total{method="any",route="no route",status="404"}'
    assert samples(text)[name] == 2


def test_only_who_may_sees_the_numbers_of_all_tenants(house: House) -> None:
    assert house.client().get("/metrics").status_code == 401
    for role in ("tenant admin", "viewer", "production replayer"):
        answer = house.client(house.key(role)).get("/metrics")
        assert code_of(answer) == (403, "permission_denied")
    assert house.client(house.key("platform admin")).get("/metrics").status_code == 200


def test_only_platform_administrators_grant_it(house: House) -> None:
    asked = {"kind": "user", "name": "prometheus", "grants": [{"role": "metrics:read"}]}
    admin = house.client(house.key("tenant admin"))
    assert code_of(admin.post("/api/v1/keys", json=asked)) == (403, "permission_denied")
    both = house.client(house.key("tenant admin", "platform admin"))
    key = both.post("/api/v1/keys", json=asked).json()["key"]
    assert house.client(key).get("/metrics").status_code == 200
    assert code_of(house.client(key).get("/api/v1/tenants")) == (403, "permission_denied")


def test_times_are_in_buckets_that_add_up() -> None:
    meters = Meters()
    for seconds in (0.001, 0.005, 0.3, 99.0):
        meters.took("reenact_http_request_seconds", seconds, method="GET", route='a"b\\c\nd')
    text = to_text(meters, ())
    found = [line.rpartition(" ") for line in text.splitlines() if "_bucket" in line]
    assert [int(value) for *_, value in found] == [2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4]
    assert len(found) == len(BUCKETS) + 1
    assert 'route="a\\"b\\\\c\\nd"' in text
    assert "_sum{" in text
    assert text.splitlines()[0].startswith("# HELP reenact_http_request_seconds ")


def test_large_numbers_are_whole() -> None:
    meters = Meters()
    meters.add("reenact_replays_ended_total", 12_345_678, state="completed")
    assert to_text(meters, ()).endswith('{state="completed"} 12345678\n')


def test_every_metric_is_in_the_guide() -> None:
    guide = Path(__file__).resolve().parents[3] / "docs" / "guides" / "watching.md"
    text = guide.read_text("utf-8")
    assert set(re.findall(r"`(reenact_[a-z_]+)`", text)) == set(METRICS)
