"""In a replay nothing is sent on connections that were open before it, and its report says so."""

from __future__ import annotations

import json
import socketserver
import ssl
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contract.relays import certificate
from tests.integration.hermetic import empty_recording
from tests.integration.processes import ROOT, run_program

Found = dict[str, dict[str, Any]]

PYTHON = (
    "send",
    "sendall",
    "sendmsg",
    "sendfile",
    "makefile",
    "os.write",
    "os.writev",
    "os.splice",
    "file",
    "makefile.kept",
    "makefile.text",
    "base_class",
    "duplicate",
    "thread",
    "tls.send",
    "tls.sendall",
    "tls.write",
    "tls.unwrap",
    "datagram",
    "unix",
    "asyncio",
    "asyncio.lines",
    "asyncio.tls",
    "asyncio.tls.lines",
)


class _Witness:
    """Servers that are no part of the program. They note every line that comes."""

    def __init__(self, folder: Path) -> None:
        self.came: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate(folder))
        witness = self

        class Lines(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    witness.came.append(line.decode().strip())

        class Secure(Lines):
            def setup(self) -> None:
                self.request = context.wrap_socket(self.request, server_side=True)
                super().setup()

            def finish(self) -> None:
                super().finish()
                self.request.close()

        class Datagrams(socketserver.DatagramRequestHandler):
            def handle(self) -> None:
                witness.came.append(self.rfile.read().decode().strip())

        class Threads(socketserver.ThreadingMixIn):
            daemon_threads = False  # all that was sent has been read when the server is closed

        class Tcp(Threads, socketserver.TCPServer):
            pass

        class Unix(Threads, socketserver.UnixStreamServer):
            pass

        self.unix = str(folder / "unix")
        self.servers: list[Any] = [
            Tcp(("127.0.0.1", 0), Lines),
            Tcp(("127.0.0.1", 0), Secure),
            socketserver.UDPServer(("127.0.0.1", 0), Datagrams),
            Unix(self.unix, Lines),
        ]

    def ports(self) -> list[str]:
        return [str(server.server_address[1]) for server in self.servers[:3]]


def _run(folder: Path, *more: str) -> tuple[Found, list[str]]:
    witness = _Witness(folder)
    results = folder / "results.json"
    with ExitStack() as stack:
        threads = []
        for server in witness.servers:
            stack.enter_context(server)
            threads.append(threading.Thread(target=server.serve_forever))
            threads[-1].start()
        try:
            arguments = [str(results), *witness.ports(), witness.unix, *more]
            recording = empty_recording(folder / "recording")
            done = run_program("open_connections", recording, *arguments)
        finally:
            for server in witness.servers:
                server.shutdown()
            for thread in threads:
                thread.join()
    assert done.returncode == 0, done.stderr
    return json.loads(results.read_text(encoding="utf-8")), witness.came


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, list[str]]:
    return _run(tmp_path_factory.mktemp("connections"))


@pytest.fixture(scope="module")
def ran_with_uvloop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Found, list[str]]:
    """uvloop is not in the environment of the tests, because uvicorn would use it everywhere."""
    folder = ROOT / ".cache" / "uvloop"
    if not (folder / "uvloop").is_dir():
        pytest.skip("there is no uvloop here: make .cache/uvloop installs it")
    return _run(tmp_path_factory.mktemp("uvloop"), str(folder))


@pytest.mark.parametrize("way", PYTHON)
def test_replay_does_not_send_on_a_connection_opened_before(
    way: str, ran: tuple[Found, list[str]]
) -> None:
    found, came = ran
    assert way not in came
    assert found[way]["status"] == "diverged"
    assert "on an open connection" in found[way]["ended"]


def test_replay_does_not_send_through_uvloop(ran_with_uvloop: tuple[Found, list[str]]) -> None:
    found, came = ran_with_uvloop
    ways = {"uvloop", *(f"uvloop.{way}" for way in ("lines", "tls", "tls.lines", "connect"))}
    assert {name for name in ways if found[name]["status"] == "diverged"} == ways
    assert ways.isdisjoint(came)
    assert found["uvloop.inside"] == {"said": "", "ended": "", "status": "ok"}
    assert came.count("again") == 2


def test_connections_work_after_the_replay(ran: tuple[Found, list[str]]) -> None:
    _, came = ran
    sockets = len([way for way in PYTHON if not way.startswith("asyncio")])
    assert came.count("again") == sockets + 2


def test_replay_sends_what_stays_inside_the_program(ran: tuple[Found, list[str]]) -> None:
    found, _ = ran
    assert found["received"]["said"] == "a"
    assert found["inside"] == {"said": "", "ended": "", "status": "ok"}


def test_bytes_that_left_in_c_are_found_by_the_counters(ran: tuple[Found, list[str]]) -> None:
    found, came = ran
    assert "in_c" in came  # nothing has prevented it
    assert found["in_c"]["status"] == "diverged"
    assert "has sent 5 bytes to 127.0.0.1" in found["in_c"]["ended"]


def test_other_threads_send_on_their_connections_while_a_replay_is_open(
    ran: tuple[Found, list[str]],
) -> None:
    found, came = ran
    assert came.count("beside") == 2
    assert found["beside"] == {"said": "", "ended": "", "status": "ok"}


def test_unix_path_is_named(ran: tuple[Found, list[str]]) -> None:
    found, _ = ran
    assert "/unix on an open connection" in found["unix"]["ended"]
