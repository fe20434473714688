"""In a replay no statement of a driver leaves, whatever the age of its connection or cursor.

The programs swallow every exception. What really happened is judged by the servers themselves, which
run in other processes, and by the byte counters of the connections.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hermetic import empty_recording
from tests.integration.processes import PATIENCE, run_program
from tests.server.databases import Cluster, find_postgres

Found = dict[str, dict[str, Any]]

_GRPC_SERVER = """\
import sys
from concurrent import futures
import grpc

came = []

class Leak(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method == "/leak.Leak/Write":
            return grpc.unary_unary_rpc_method_handler(lambda one, _: came.append(one) or b"")
        return grpc.stream_unary_rpc_method_handler(lambda many, _: came.extend(many) or b"")

server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((Leak(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
for line in sys.stdin:
    print(*sorted({one.decode() for one in came}), flush=True)
"""


_MONGO_WITNESS = """\
import json
import socketserver
import struct
import bson

class Handler(socketserver.BaseRequestHandler):
    def read(self, count):
        found = b""
        while len(found) < count:
            part = self.request.recv(count - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    def handle(self):
        try:
            while True:
                self.answer()
        except (EOFError, OSError):
            pass

    def answer(self):
        length, number, _, kind = struct.unpack("<iiii", self.read(16))
        body = self.read(length - 16)
        # OP_QUERY of the first handshake: flags, name, two numbers. OP_MSG: flags, kind of section.
        start = body.index(b"\\0", 4) + 9 if kind == 2004 else 5
        size = struct.unpack_from("<i", body, start)[0]
        asked = bson.decode(body[start : start + size])
        rest = body[start + size :]
        documents = asked.get("documents", [])
        if rest[:1] == b"\\1":  # a section with a sequence of documents
            documents = bson.decode_all(rest[rest.index(b"\\0", 5) + 1 :])
        for one in documents or [{}]:
            name = {"name": one["name"]} if "name" in one else {}
            print(json.dumps({"command": next(iter(asked)), **name}), flush=True)
        said = {
            "ok": 1, "helloOk": True, "isWritablePrimary": True, "ismaster": True, "n": 1,
            "minWireVersion": 0, "maxWireVersion": 21, "maxBsonObjectSize": 1 << 24,
            "maxMessageSizeBytes": 1 << 25, "maxWriteBatchSize": 1000,
            "logicalSessionTimeoutMinutes": 30,
        }
        if kind == 2004:
            head = struct.pack("<iqii", 8, 0, 0, 1)
        else:
            head = struct.pack("<ib", 0, 0)
        if kind == 2013 and body[0] & 2:
            return  # no response is wanted
        text = head + bson.encode(said)
        kinds = 1 if kind == 2004 else 2013
        self.request.sendall(struct.pack("<iiii", 16 + len(text), 0, number, kinds) + text)

class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

server = Server(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
"""A listener that speaks enough of MongoDB's protocol to be used, and prints every command. Debian
has no MongoDB."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Cluster]:
    home = find_postgres()
    if home is None:
        pytest.skip("there is no PostgreSQL here: on Debian, apt-get install postgresql")
    cluster = Cluster(home, Path(tempfile.mkdtemp(prefix="reenact-pg-")))
    try:
        cluster.start()
        cluster.sql("CREATE TABLE leak (name TEXT)")
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def attempts(tmp_path: Path) -> Callable[..., Found]:
    """``attempts(driver, address)`` runs all attempts of a driver in one process."""

    def run(driver: str, *address: str) -> Found:
        results = tmp_path / "results.json"
        recording = empty_recording(tmp_path / "recording")
        done = run_program("driver_attempts", driver, recording, results, *address)
        assert done.returncode == 0, done.stderr
        found: Found = json.loads(results.read_text(encoding="utf-8"))
        return found

    return run


_NAMELESS = (
    "large_object",
    "prepared",
    "connect",
    "connect_async",
    "connect_for_replication",
    "cancel_made_before",
    "attach",
    "vacuum_into",
)
"""Attempts whose message names the driver and no peer, because the driver does not tell it."""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _judge(found: Found, driver: str, peer: str, *, bytes_count: bool = True) -> None:
    assert len(found) > 4
    for name, one in found.items():
        assert one["status"] == "diverged", (name, one)
        assert one["live"] == 0, (name, one)
        assert f"through {driver}" in one["ended"], (name, one)
        if name not in _NAMELESS:
            assert peer in one["ended"], (name, one)
        assert f"--allow {driver}" in one["ended"], (name, one)
        if bytes_count and not name.startswith("connect"):
            assert one["bytes"] == 0, (name, one)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
def test_replay_refuses_statements_to_postgresql_on_open_connections(
    driver: str, postgres: Cluster, attempts: Callable[..., Found]
) -> None:
    postgres.sql("TRUNCATE leak")
    found = attempts(driver, postgres.address("postgres", "postgres"))
    rows = postgres.sql("SELECT name FROM leak")
    assert {row["name"] for row in rows} == {"control"}
    _judge(found, driver, postgres.address("postgres", "postgres").rpartition(":")[2][:4])


def test_replays_do_not_disturb_live_statements_nor_blame_them(
    postgres: Cluster, attempts: Callable[..., Found]
) -> None:
    postgres.sql("TRUNCATE leak")
    found = attempts("live", postgres.address("postgres", "postgres"), "300")
    assert len(postgres.sql("SELECT name FROM leak")) == 3 * 300
    assert found
    blamed = [one for one in found.values() if one["status"] != "ok"]
    assert blamed == []


@pytest.mark.parametrize("driver", ["redis", "valkey"])
def test_replay_refuses_commands_to_redis_on_pooled_connections(
    driver: str, tmp_path: Path, attempts: Callable[..., Found]
) -> None:
    server = shutil.which("redis-server")
    if server is None:
        pytest.skip("there is no Redis here: on Debian, apt-get install redis-server")
    pytest.importorskip(driver)
    port = _free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    process = subprocess.Popen([server, *options], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        next(line for line in process.stdout if b"eady to accept connections" in line)
        process.stdout.close()
        found = attempts("redis", str(port), driver)
        asked = subprocess.run(
            ["redis-cli", "-p", str(port), "KEYS", "*"], capture_output=True, check=True, text=True
        )
        assert asked.stdout.split() == ["control"]
        _judge(found, driver, str(port))
        assert "'INCRBY' to localhost" in found["incr"]["raised"]
    finally:
        process.kill()
        process.wait()


def test_replay_refuses_statements_to_a_sqlite_file(
    tmp_path: Path, attempts: Callable[..., Found]
) -> None:
    path = tmp_path / "leak.db"
    with sqlite3.connect(path) as witness:
        witness.execute("CREATE TABLE leak (name TEXT)")
    found = attempts("sqlite3", str(path))
    assert {name for [name] in witness.execute("SELECT name FROM leak")} == {"control"}
    _judge(found, "sqlite3", "leak.db")
    assert not Path(f"{path}.copy").exists()


@pytest.fixture(scope="module")
def mysql() -> Iterator[tuple[int, Callable[[str], list[str]]]]:
    """A MariaDB: its port, and a function that executes SQL with its own client."""
    home = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin")
    if home is None:
        pytest.skip("there is no MariaDB here: on Debian, apt-get install mariadb-server")
    folder = Path(tempfile.mkdtemp(prefix="reenact-my-"))
    data, log, where = folder / "data", folder / "log", folder / "socket"
    place = ["--no-defaults", f"--datadir={data}", f"--user={getpass.getuser()}"]
    subprocess.run(
        ["mariadb-install-db", *place, "--auth-root-authentication-method=normal"],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    port = _free_port()
    with log.open("wb") as written:
        options = [f"--port={port}", f"--socket={where}", "--bind-address=127.0.0.1"]
        process = subprocess.Popen([home, *place, *options], stdout=written, stderr=written)
    client = ["mariadb", "--no-defaults", f"--socket={where}", "-uroot", "-N", "-e"]

    def sql(text: str) -> list[str]:
        done = subprocess.run([*client, text], check=True, capture_output=True, text=True)
        return done.stdout.split()

    try:
        while subprocess.run([*client, "SELECT 1"], capture_output=True).returncode:
            assert process.poll() is None, log.read_text("utf-8", "replace")
        sql("CREATE DATABASE app; CREATE TABLE app.leak (name TEXT)")
        yield port, sql
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    "driver, arguments",
    [
        ("PyMySQL", ["mysql", "pymysql"]),
        ("mysql-connector", ["mysql", "mysql.connector", "use_pure=true"]),
        ("mysql-connector", ["mysql", "mysql.connector", "use_pure=false"]),
        ("mysqlclient", ["mysql", "MySQLdb"]),
        ("aiomysql", ["mysql_of_tasks", "aiomysql"]),
        ("asyncmy", ["mysql_of_tasks", "asyncmy"]),
    ],
    ids=[
        "PyMySQL",
        "mysql-connector",
        "mysql-connector in C",
        "mysqlclient",
        "aiomysql",
        "asyncmy",
    ],
)
def test_replay_refuses_statements_to_mysql(
    driver: str,
    arguments: list[str],
    mysql: tuple[int, Callable[[str], list[str]]],
    attempts: Callable[..., Found],
) -> None:
    kind, module, *options = arguments
    port, sql = mysql
    pytest.importorskip(module)
    if options == ["use_pure=false"]:
        pytest.importorskip("_mysql_connector", exc_type=ImportError)
    sql("TRUNCATE app.leak")
    found = attempts(kind, str(port), module, *options)
    assert sql("SELECT name FROM app.leak") == ["control"]
    _judge(found, driver, "127.0.0.1")


def test_replay_refuses_commands_of_pymongo_on_pooled_connections(
    attempts: Callable[..., Found],
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _MONGO_WITNESS], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            # pymongo watches its servers, so bytes leave without a command.
            _judge(attempts("pymongo", port), "pymongo", f"127.0.0.1:{port}", bytes_count=False)
            process.terminate()
            came = [json.loads(line) for line in process.stdout]
            assert {one["name"] for one in came if "name" in one} == {"control"}
            assert not {"find", "getMore", "aggregate"} & {one["command"] for one in came}
        finally:
            process.kill()


def test_replay_refuses_calls_on_open_grpc_channels(attempts: Callable[..., Found]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _GRPC_SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            found = attempts("grpc", process.stdout.readline().strip())
            process.stdin.write("\n")
            process.stdin.flush()
            # HTTP/2 acknowledges by itself, so bytes leave without a call.
            assert process.stdout.readline().split() == ["control"]
            _judge(found, "grpc", "127.0.0.1", bytes_count=False)
        finally:
            process.kill()
