"""``reenact serve`` as a process of its own, and people and agents who may use it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import msgspec

from reenact.server.auth.credentials import SECRET_SIZE, KeyKind, hash_secret, key_text
from reenact.server.auth.permissions import Grant
from reenact.server.process.startup import open_server
from reenact.server.runtime import Server, TenantFacts
from reenact.server.storage import people, platform
from reenact.server.storage.people import Environment, Key, User

__all__ = ["APP", "ENVIRONMENT", "NAME", "TENANT", "Line", "Process", "Rights", "serving", "settle"]

NAME = "bench.example"
TENANT = "default"
APP, ENVIRONMENT = "shop", "staging"
_ROLES = ("tenant admin", "replayer", "replay:live")


class Rights(msgspec.Struct, frozen=True):
    """What opens a server: keys, and the secret of somebody's cookie."""

    tenant: str
    agent_key: str
    user_key: str
    cookie: str


async def settle(data: Path, address: str, tenants: tuple[str, ...] = (TENANT,)) -> list[Rights]:
    """Make the database of a server, if there is none, and somebody in each of ``tenants``."""
    async with open_server(data, NAME, database=address) as opened:
        return [await _rights(opened.server, tenant) for tenant in tenants]


async def _rights(server: Server, tenant: str) -> Rights:
    async with server.database.platform(write=True) as transaction:
        if await platform.tenant_by_id(transaction, tenant) is None:
            facts = TenantFacts(tenant, tenant, "business", True)
            await platform.add_tenant(transaction, facts, server.now())
        scope = transaction.scope(tenant)
        await people.set_environment(scope, Environment(ENVIRONMENT, "non-production"))
        user_id = server.new_id("usr")
        email = f"{user_id}@example.com"
        await people.add_user(scope, User(tenant, user_id, email, "", "", 0, server.now()))
        for role in _ROLES:
            grant = Grant(role, id=server.new_id("grt"))
            await people.add_grant(scope, "user", user_id, grant, server.now(), "bench")
        keys = {}
        for kind in ("agent", "user"):
            owner = user_id if kind == "user" else ""
            keys[kind], row = _key(server, tenant, kind, owner)
            await people.add_key(scope, row)
        secret = server.secret(SECRET_SIZE).hex()
        now, ends = server.now(), server.now() + int(server.timings.session_longest * 1000)
        session = platform.Session(tenant, hash_secret(secret), user_id, now, now, ends)
        await platform.add_session(transaction, session, now)
    return Rights(tenant, keys["agent"], keys["user"], secret)


def _key(server: Server, tenant: str, kind: KeyKind, owner: str) -> tuple[str, Key]:
    secret, key_id = server.secret(SECRET_SIZE).hex(), server.new_id("key")
    place = (APP, ENVIRONMENT) if kind == "agent" else ("", "")
    row = Key(tenant, key_id, kind, "bench", hash_secret(secret), *place, owner, server.now(), 0)
    return key_text(kind, key_id, secret), row


class Process(msgspec.Struct, frozen=True):
    """A server that answers at ``url``."""

    url: str
    pid: int


class Line:
    """A connection that stays: somebody with a key or a cookie, or nobody."""

    def __init__(self, url: str, *, key: str = "", cookie: str = "") -> None:
        self._connection = HTTPConnection(url.removeprefix("http://"), timeout=600)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        if cookie:
            self._headers = {"Cookie": f"reenact={cookie}", "Accept": "text/html"}

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def get(self, path: str) -> bytes:
        """Raises :class:`RuntimeError` unless it is there."""
        return self._ask("GET", path, b"", {})

    def post(
        self, path: str, body: bytes, kind: str = "application/json", coding: str = ""
    ) -> bytes:
        """The same, with a body."""
        said = {"Content-Encoding": coding} if coding else {}
        return self._ask("POST", path, body, {"Content-Type": kind, **said})

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        sent = {**self._headers, **headers}
        try:
            self._connection.request(method, path, body or None, sent)
            answer = self._connection.getresponse()
        except ConnectionError:  # the line was quiet for longer than the server keeps it
            self._connection.close()
            self._connection.request(method, path, body or None, sent)
            answer = self._connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:500]!r}")
        return data

    def stream(self, path: str) -> HTTPResponse:
        """An answer that goes on; this line is then taken."""
        self._connection.request("GET", path, None, self._headers)
        answer = self._connection.getresponse()
        if answer.status != 200:
            raise RuntimeError(f"GET {path}: {answer.status} {answer.read()!r}")
        return answer


@contextmanager
def serving(data: Path, address: str = "") -> Iterator[Process]:
    """A server on ``data`` until the block ends; what it says goes to a file beside."""
    log = data.with_name(f"{data.name}-{time.time_ns()}.log")
    command = [sys.executable, "-m", "reenact", "serve", "--port", "0", "--data", str(data)]
    env = {name: value for name, value in os.environ.items() if name != "REENACT_DATABASE"}
    if address:
        env["REENACT_DATABASE"] = address
    with log.open("wb") as said:
        process = subprocess.Popen(command, stderr=said, env=env)
    try:
        yield Process(_url(process, log), process.pid)
    finally:
        process.terminate()
        process.wait()
        log.unlink()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        found = re.search(r" at (http://\S+)", log.read_text("utf-8", "replace"))
        if found:
            return found[1]
        time.sleep(0.02)
    raise RuntimeError(log.read_text("utf-8", "replace"))
