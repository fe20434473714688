"""What was recorded reaches the server, once, whatever happens on the way."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from reenact.exchange.model import ReplayOf
from reenact.store.pack import unpack
from tests.integration.exchange.client_helpers import (
    a_capture,
    an_exchange,
    limits,
    linked,
    until_status,
)
from tests.integration.exchange.protocol_server import Fault, ProtocolServer
from tests.unit.store.samples import contents


def stored(server: ProtocolServer, count: int) -> None:
    server.until(lambda: len(server.exchanges) == count)


def aside(folder: Path) -> list[str]:
    return [
        json.loads((entry / "reason.json").read_bytes())["reason"]
        for entry in sorted((folder / "refused").iterdir())
    ]


def test_an_exchange_and_its_recording_are_stored(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        with linked(server, tmp_path / "data") as link:
            place = a_capture(link.place())
            before = contents(place)
            link.offer(an_exchange(), place)
            stored(server, 1)
        exchange = server.exchanges["ex-1"]
        assert exchange["agentId"] == link.status().agent_id
        packed = server.blobs[exchange["recording"]["digest"]]
        assert exchange["recording"]["size"] == len(packed)
        assert exchange["recording"]["events"] == 3
        (tmp_path / "packed").write_bytes(packed)
        report = unpack(tmp_path / "packed", tmp_path / "copy")
        assert exchange["recording"]["contentHash"] == report.manifest.integrity.content_hash
        assert contents(tmp_path / "copy") == before
        assert server.goodbyes == [link.status().agent_id]
        assert link.status().state == "closed"
    assert not list((tmp_path / "data" / "spool" / "1" / "ready").iterdir())


def test_nothing_is_lost_while_the_server_is_away(tmp_path: Path) -> None:
    server = ProtocolServer()
    server.start()
    server.stop()
    with linked(server, tmp_path) as link:
        for number in range(20):
            link.offer(an_exchange(f"ex-{number}"), a_capture(link.place(), number + 1))
        assert link.status().spooled == 20
        with server:
            stored(server, 20)
            assert list(server.exchanges) == [f"ex-{number}" for number in range(20)]
            link.close(10)
    assert link.status().dropped == 0


def test_what_is_left_is_sent_by_the_next_process(tmp_path: Path) -> None:
    with linked("http://127.0.0.1:9", tmp_path, start=False) as link:
        link.offer(an_exchange("ex-1"), a_capture(link.place()))
        link.offer(an_exchange("ex-2"), None)
    with ProtocolServer() as server, linked(server, tmp_path):
        stored(server, 2)
        assert list(server.exchanges) == ["ex-1", "ex-2"]


def test_closing_sends_what_is_there(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        with linked(server, tmp_path) as link:
            for number in range(50):
                link.offer(an_exchange(f"ex-{number}"), None)
        assert len(server.exchanges) == 50


@pytest.mark.parametrize(
    "fault",
    [
        Fault(500),
        Fault(503, headers={"Retry-After": "0"}),
        Fault(429, headers={"Retry-After": "0"}),
        Fault(200, body=b"<html>"),
        Fault(200, body=b'{"results": []}'),
        Fault(302, headers={"Location": "http://127.0.0.1:9/"}),
        Fault(401, code="key_unknown"),
        Fault(cut=0),
        Fault(cut=20),
        Fault(cut=90),
        Fault(500, after=True),
        Fault(cut=0, after=True),
        Fault(cut=70, after=True),
    ],
    ids=lambda fault: f"{fault.status}{'-cut' if fault.cut is not None else ''}",
)
def test_a_request_that_goes_wrong_is_sent_again(tmp_path: Path, fault: Fault) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:
        server.fail("ingest", fault, fault)
        link.offer(an_exchange(), a_capture(link.place()))
        stored(server, 1)
    assert set(server.ingested) == {"ex-1"}
    assert not (tmp_path / "refused").exists()


def test_the_server_may_crash_in_the_middle(tmp_path: Path) -> None:
    server = ProtocolServer()
    with server, linked(server, tmp_path, limits=limits(request_seconds=10)) as link:
        for number in range(10):
            link.offer(an_exchange(f"ex-{number}"), a_capture(link.place()))
        server.until(lambda: server.ingested)
        server.stop()
        for number in range(10, 20):
            link.offer(an_exchange(f"ex-{number}"), a_capture(link.place()))
        server.start()
        stored(server, 20)
        assert sorted(server.exchanges) == sorted(f"ex-{number}" for number in range(20))


def test_what_the_server_refuses_is_set_aside_with_the_reason(tmp_path: Path) -> None:
    warnings: list[str] = []
    with ProtocolServer() as server:
        server.refuse = {"ex-1": "exchange_conflict", "ex-3": "exchange_conflict"}
        with linked(server, tmp_path, warnings=warnings) as link:
            for number in range(5):
                link.offer(an_exchange(f"ex-{number}"), a_capture(link.place()))
            stored(server, 3)
        assert sorted(server.exchanges) == ["ex-0", "ex-2", "ex-4"]
        assert server.ingested.count("ex-1") == 1
    assert aside(tmp_path) == ["exchange_conflict: scripted"] * 2
    assert len(warnings) == 1
    assert link.status().refused == 2


def test_a_batch_that_cannot_be_read_is_taken_apart(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        bad = Fault(400, code="invalid")
        with linked(server, tmp_path, start=False) as link:
            for number in range(4):
                link.offer(an_exchange(f"ex-{number}"), None)
            server.fail("ingest", bad, bad, bad)  # four, two, one
            link.start()
            stored(server, 3)
    assert sorted(server.exchanges) == ["ex-1", "ex-2", "ex-3"]
    assert aside(tmp_path) == ["invalid: scripted"]


def test_a_recording_that_is_too_large_is_left_out(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:
        server.fail("ingest", Fault(413, code="too_large"))
        link.offer(an_exchange(), a_capture(link.place()))
        stored(server, 1)
    exchange = server.exchanges["ex-1"]
    assert exchange["recording"] is None
    assert exchange["notReplayable"] == "its recording is too large for the server"


def test_batches_are_no_larger_than_the_server_takes(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        server.max_batch_bytes = 1_000
        with linked(server, tmp_path, start=False, limits=limits(batch_bytes=1_000)) as link:
            for number in range(12):
                link.offer(an_exchange(f"ex-{number}", correlation_id="x" * 200), None)
            link.start()
            stored(server, 12)
    assert max(server.batches) < 5


def test_a_damaged_recording_leaves_the_exchange(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:
        place = a_capture(link.place())
        (place / "events.jsonl").write_bytes(b"{}\n")
        link.offer(an_exchange(), place)
        stored(server, 1)
    assert "recording.damaged" in server.exchanges["ex-1"]["notReplayable"]


def test_a_full_spool_drops_what_is_new_and_says_so_once(tmp_path: Path) -> None:
    warnings: list[str] = []
    full = limits(spool_bytes=2_000)
    with linked(
        "http://127.0.0.1:9", tmp_path, start=False, warnings=warnings, limits=full
    ) as link:
        for number in range(30):
            link.offer(an_exchange(f"ex-{number}"), None)
        status = link.status()
    assert status.spooled + status.dropped == 30
    assert 0 < status.spooled < 20
    assert len(warnings) == 1
    with ProtocolServer() as server, linked(server, tmp_path):
        stored(server, status.spooled)
        assert list(server.exchanges) == [f"ex-{number}" for number in range(status.spooled)]


def test_a_folder_that_cannot_be_used_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file", encoding="utf-8")
    warnings: list[str] = []
    with linked("http://127.0.0.1:9", tmp_path / "data", warnings=warnings) as link:
        place = link.place()
        assert not place.parent.exists()
        link.offer(an_exchange(), place)
        link.offer(an_exchange(), None)
        assert link.status().dropped == 2
    assert len(warnings) == 1


def test_a_key_that_is_refused_keeps_everything(tmp_path: Path) -> None:
    warnings: list[str] = []
    with ProtocolServer() as server:
        refused = [Fault(403, code="key_revoked")] * 3
        server.fail("ingest", *refused)
        with linked(server, tmp_path, warnings=warnings) as link:
            link.offer(an_exchange(), None)
            stored(server, 1)
    assert sum("key_revoked" in text for text in warnings) == 1


def test_a_connection_is_used_again(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:
        for number in range(10):
            link.offer(an_exchange(f"ex-{number}"), None)
            stored(server, number + 1)
        assert server.connections <= 3


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        with linked(server, tmp_path) as one, linked(server, tmp_path) as two:
            one.offer(an_exchange("ex-1"), None)
            two.offer(an_exchange("ex-2"), None)
            stored(server, 2)
            agents = {one.status().agent_id, two.status().agent_id}
        assert len(agents) == 2
        server.until(lambda: len(server.goodbyes) == 2)
        with linked(server, tmp_path) as again:
            again.offer(an_exchange("ex-3"), None)
            stored(server, 3)
            assert again.status().agent_id in agents


def test_what_another_process_left_is_adopted(tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9"
    with (
        linked(nowhere, tmp_path, start=False) as one,
        linked(nowhere, tmp_path, start=False) as two,
    ):
        one.offer(an_exchange("ex-1"), None)
        two.offer(an_exchange("ex-2"), a_capture(two.place()))
        assert one.status().agent_id != two.status().agent_id
    with ProtocolServer() as server, linked(server, tmp_path):
        stored(server, 2)


def test_many_threads_offer_at_once(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:

        def offer(first: int) -> None:
            for number in range(first, first + 25):
                link.offer(an_exchange(f"ex-{number}"), a_capture(link.place()))

        threads = [threading.Thread(target=offer, args=(first,)) for first in (0, 25, 50, 75)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stored(server, 100)
    assert link.status().dropped == 0


def test_busy_app_sends_many_exchanges_in_one_request(tmp_path: Path) -> None:
    slow = limits(gather_seconds=3_600.0)
    server = ProtocolServer()
    server.heartbeat_seconds = 0.05
    with server, linked(server, tmp_path, limits=slow) as link:
        link.offer(an_exchange("ex-0"), None)
        stored(server, 1)  # the first one after a pause does not wait
        until_status(link, lambda status: status.spooled == 0)
        for number in range(1, 6):
            link.offer(an_exchange(f"ex-{number}"), None)
        waiting = [5, 5, 5]
        server.until(lambda: [beat["spooled"] for beat in server.heartbeats[-3:]] == waiting)
        replay = ReplayOf(replay_id="rp-1", source_exchange_id="ex-0")
        link.offer(an_exchange("ex-6", replay=replay), None)  # nor does that of a replay
        stored(server, 7)
        assert server.batches == [1, 6]
