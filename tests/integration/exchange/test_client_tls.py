"""Over TLS: who the server is is verified, unless the app says how."""

from __future__ import annotations

from pathlib import Path

from tests.integration.exchange.client_helpers import (
    CountingRunner,
    a_capture,
    an_exchange,
    linked,
    until_status,
)
from tests.integration.exchange.own_tls import certificate, serving, trusting
from tests.integration.exchange.protocol_server import ProtocolServer


def test_everything_goes_over_tls(tmp_path: Path) -> None:
    path, runner = certificate(tmp_path), CountingRunner()
    with (
        ProtocolServer(serving(path)) as server,
        linked(server, tmp_path / "data", runner, tls=trusting(path)) as link,
    ):
        link.offer(an_exchange(), a_capture(link.place()))
        server.until(lambda: server.streams and server.exchanges)
        server.give(server.order(link.status().agent_id, "rp-1"))
        server.until(lambda: len(server.exchanges) == 2)
    assert server.goodbyes == [link.status().agent_id]


def test_a_server_that_nobody_vouches_for_gets_nothing(tmp_path: Path) -> None:
    with ProtocolServer(serving(certificate(tmp_path))) as server:
        with linked(server, tmp_path / "data", timeout=0.5) as link:
            link.offer(an_exchange(), None)
            until_status(link, lambda now: "certificate" in now.error)
        assert server.requests == []
    assert link.status().spooled == 1
