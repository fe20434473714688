"""The link is no part of the program: no recording has it, and no replay refuses it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import reenact
from reenact.errors import DivergenceError
from reenact.hermetic.call_origin import is_own_connection, own_connection
from tests.integration.exchange.client_helpers import CountingRunner, a_capture, an_exchange, linked
from tests.integration.exchange.protocol_server import ProtocolServer
from tests.integration.processes import environment
from tests.unit.store.samples import contents

_PROGRAM = """
import sys, time
from pathlib import Path
import reenact
from tests.integration.exchange.client_helpers import CountingRunner, a_capture, an_exchange, linked

server, folder, where, mode = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
with reenact.session(capture=where, mode=mode, strict=True, whole_process=True):
    with linked(server, folder, CountingRunner()) as link:
        link.offer(an_exchange("ex-" + mode), a_capture(link.place()))
        time.time()
        assert link.status().dropped == 0
"""


def run(server: ProtocolServer, folder: Path, where: Path, mode: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, server.url, folder, where, mode],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_session_of_the_whole_process_leaves_the_link_alone(tmp_path: Path) -> None:
    with ProtocolServer() as server:
        run(server, tmp_path / "data", tmp_path / "c", "record")
        assert list(server.exchanges) == ["ex-record"]
        types = [kind for _, kind, *_ in contents(tmp_path / "c")]
        assert not [kind for kind in types if kind.startswith("http")], types
        run(server, tmp_path / "data", tmp_path / "c", "replay")
        assert list(server.exchanges) == ["ex-record", "ex-replay"]
        assert len(server.goodbyes) == 2


def test_a_link_works_beside_a_replay_and_the_program_is_still_held(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        pass
    with (
        ProtocolServer() as server,
        socket.create_server(("127.0.0.1", 0)) as outside,
        linked(server, tmp_path / "data", CountingRunner()) as link,
        pytest.raises(DivergenceError),  # it says at its end what it has refused
        reenact.session(capture=tmp_path / "c", mode="replay", strict=True),
    ):
        link.offer(an_exchange(), a_capture(link.place()))
        server.until(lambda: server.exchanges)
        with socket.socket() as sock, pytest.raises(DivergenceError):
            sock.connect(outside.getsockname())
        with pytest.raises(DivergenceError):
            urllib.request.urlopen(f"{server.url}/")


def test_an_exemption_is_for_code_in_no_session_only(tmp_path: Path) -> None:
    with reenact.session(capture=tmp_path / "c", mode="record"):
        pass
    with (
        socket.create_server(("127.0.0.1", 0)) as outside,
        pytest.raises(DivergenceError),
        reenact.session(capture=tmp_path / "c", mode="replay", strict=True),
        own_connection(),
    ):
        assert is_own_connection()
        with socket.socket() as sock, pytest.raises(DivergenceError):
            sock.connect(outside.getsockname())
    assert not is_own_connection()


def test_a_forked_child_is_an_agent_of_its_own(tmp_path: Path) -> None:
    with ProtocolServer() as server, linked(server, tmp_path) as link:
        server.until(lambda: server.streams)
        link.offer(an_exchange("ex-parent"), None)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                link.after_fork()
                link.offer(an_exchange("ex-child"), a_capture(link.place()))
                link.close(20)
                code = 0 if link.status().spooled == 0 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        server.until(lambda: len(server.exchanges) == 2)
        link.offer(an_exchange("ex-later"), None)
        server.until(lambda: len(server.exchanges) == 3)
        agents = {exchange["agentId"] for exchange in server.exchanges.values()}
        assert len(agents) == 2
        assert len(server.registrations) == 2


def test_a_link_that_was_not_started_does_not_start_in_a_child(tmp_path: Path) -> None:
    with linked("http://127.0.0.1:9", tmp_path, start=False) as link:
        link.offer(an_exchange("ex-1"), None)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                link.after_fork()
                link.offer(an_exchange("ex-2"), None)
                code = 0 if link.status().state == "new" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert link.status().spooled == 1
    lines = [json.loads(path.read_bytes()) for path in sorted(tmp_path.glob("spool/*/log/*.jsonl"))]
    assert [line["exchange"]["exchangeId"] for line in lines] == ["ex-1", "ex-2"]
