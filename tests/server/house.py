"""A server that runs, and people who use it: real sockets, a real database, a settable clock.

``house.run(coroutine)`` runs something in the server's own loop. Everything that is asked over HTTP
goes through ``house.client(...)``.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec

from reenact.audit.record import Record
from reenact.server.app import make_app
from reenact.server.audit.log import SYSTEM
from reenact.server.auth.credentials import KeyKind, hash_secret, key_text
from reenact.server.auth.permissions import EnvironmentKind, Grant, Tier
from reenact.server.process.serve import Uvicorn, bind, url_of
from reenact.server.process.startup import OpenServer, World, open_server
from reenact.server.runtime import Limits, Server, TenantFacts, Timings
from reenact.server.storage import people, platform
from reenact.server.storage.audit import RecordFilter, find_records
from reenact.server.storage.people import Environment, Key, User
from tests.server.databases import DATABASES

T = TypeVar("T")
START = 1_790_000_000_000
_LIMITS, _TIMINGS = Limits(), Timings()
PASSWORD = "-".join(["correct", "horse", "battery"])


class Clock:
    """Milliseconds; stands still until it is moved."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> int:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += int(seconds * 1000)


class Chance:
    """Random bytes that are the same every time; others with another ``seed``."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._count = 0
        self._lock = threading.Lock()

    def __call__(self, size: int) -> bytes:
        with self._lock:
            self._count += 1
            return hashlib.shake_256(f"{self._seed}{self._count}".encode()).digest(size)


class House:
    """``url`` is where it is; ``setup_token`` that of the link which the first start prints."""

    def __init__(
        self, url: str, opened: OpenServer, loop: asyncio.AbstractEventLoop, clock: Clock
    ) -> None:
        self.url = url
        self.server: Server = opened.server
        self.setup_token = opened.setup_token
        self.clock = clock
        self.unread: Callable[[], list[int]] = list
        """For each connection the bytes that were written to it and have not left yet."""
        self._loop = loop
        self._clients: list[httpx.Client] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something in the loop of the server."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def client(self, key: str = "", **headers: str) -> httpx.Client:
        """Somebody with a key, or nobody. Closed with the house."""
        sent = {"Authorization": f"Bearer {key}", **headers} if key else headers
        found = httpx.Client(base_url=self.url, headers=sent, timeout=60, trust_env=False)
        self._clients.append(found)
        return found

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def key(
        self,
        *grants: str | Grant,
        tenant: str = "default",
        kind: KeyKind = "user",
        app: str = "",
        environment: str = "",
        owner: str = "",
        expires_at: int = 0,
    ) -> str:
        """A key with these grants, or one of an agent."""
        secret = self.server.secret(32).hex()
        key_id = self.server.new_id("key")
        key = Key(
            tenant=tenant,
            id=key_id,
            kind=kind,
            name=f"{kind} {app}",
            hash=hash_secret(secret),
            app=app,
            environment=environment,
            owner=owner,
            created_at=self.clock(),
            expires_at=expires_at,
        )
        self.run(self._add_key(key, grants))
        return key_text(kind, key_id, secret)

    async def _add_key(self, key: Key, grants: tuple[str | Grant, ...]) -> None:
        async with self.server.database.writing(key.tenant) as scope:
            await people.add_key(scope, key)
            for grant in map(_grant, grants):
                stored = msgspec.structs.replace(grant, id=self.server.new_id("grt"))
                await people.add_grant(scope, "key", key.id, stored, self.clock(), "test")

    def agent_key(
        self, app: str = "shop", environment: str = "production", tenant: str = "default"
    ) -> str:
        return self.key(kind="agent", app=app, environment=environment, tenant=tenant)

    def user(
        self, email: str, *grants: str | Grant, tenant: str = "default", password: str = PASSWORD
    ) -> str:
        """The id of a user with a password."""
        return self.run(self._add_user(email, grants, tenant, password))

    async def _add_user(
        self, email: str, grants: tuple[str | Grant, ...], tenant: str, password: str
    ) -> str:
        server = self.server
        user = User(
            tenant=tenant,
            id=server.new_id("usr"),
            email=email,
            password=await server.passwords.hash(password) if password else "",
            invite_hash="",
            invite_expires_at=0,
            created_at=self.clock(),
        )
        async with server.database.writing(tenant) as scope:
            await people.add_user(scope, user)
            for grant in map(_grant, grants):
                stored = msgspec.structs.replace(grant, id=server.new_id("grt"))
                await people.add_grant(scope, "user", user.id, stored, self.clock(), "test")
        return user.id

    def tenant(self, tenant: str, tier: Tier = "business", dedicated: bool = True) -> str:
        """A further tenant, whose id is its name."""
        self.run(self._add_tenant(TenantFacts(tenant, tenant, tier, dedicated)))
        return tenant

    async def _add_tenant(self, tenant: TenantFacts) -> None:
        async with self.server.database.platform(write=True) as transaction:
            await platform.add_tenant(transaction, tenant, self.clock())
            scope = transaction.scope(tenant.id)
            record = Record(tenant=tenant.id, actor=SYSTEM, action="session.opened", outcome="ok")
            await self.server.auditor.write(scope, record)

    def set_tier(self, tier: Tier, dedicated: bool = True, tenant: str = "default") -> None:
        self.run(self._set_tier(tenant, tier, dedicated))

    async def _set_tier(self, tenant: str, tier: Tier, dedicated: bool) -> None:
        async with self.server.database.platform(write=True) as transaction:
            await platform.change_tenant(transaction, tenant, tier, dedicated)

    def environment(
        self, name: str, kind: EnvironmentKind = "non-production", tenant: str = "default"
    ) -> None:
        """Say of what kind an environment is."""
        self.run(self._set_environment(tenant, Environment(name, kind)))

    async def _set_environment(self, tenant: str, environment: Environment) -> None:
        async with self.server.database.writing(tenant) as scope:
            await people.set_environment(scope, environment)

    def records(self, action: str = "", tenant: str = "default") -> list[dict[str, Any]]:
        """What the audit log has, the oldest first."""
        return self.run(self._records(action, tenant))

    async def _records(self, action: str, tenant: str) -> list[dict[str, Any]]:
        async with self.server.database.reading(tenant) as scope:
            found = await find_records(scope, RecordFilter(action=action), 10_000)
        return [msgspec.json.decode(line) for _, line in reversed(found)]


def _grant(grant: str | Grant) -> Grant:
    return Grant(grant) if isinstance(grant, str) else grant


def _unread(uvicorn: Uvicorn) -> list[int]:
    transports = [one.transport for one in list(uvicorn.server_state.connections)]
    return [one.get_write_buffer_size() for one in transports]


@contextmanager
def running(
    data: Path,
    name: str = "test.example",
    limits: Limits = _LIMITS,
    timings: Timings = _TIMINGS,
    database: str = "",
    blobs: str = "",
    seed: str = "",
    listening: Callable[[], socket.socket] = lambda: bind("127.0.0.1", 0),
    protocol: type[asyncio.Protocol] | None = None,
    **outside: Any,
) -> Iterator[House]:
    """A server in a thread, with a loop of its own, until the block ends. Its database is that which
    goes with ``data``, unless one is named; on one that several share, each has another ``seed``.
    ``listening`` gives its socket, ``protocol`` is that of its connections; ``outside`` is what else is
    in its :class:`World`."""
    clock = Clock()
    address = database or DATABASES.prepared(data)
    world = World(clock, Chance(seed), limits, timings, password_cost=16, **outside)
    started = threading.Event()
    found: list[House] = []
    failed: list[BaseException] = []
    uvicorns: list[Uvicorn] = []

    async def life() -> None:
        async with open_server(data, name, world, database=address, blobs=blobs) as opened:
            with listening() as sock:
                uvicorn = Uvicorn(
                    make_app(opened.server), opened.server.stopping, protocol=protocol
                )
                uvicorns.append(uvicorn)
                found.append(House(url_of(sock), opened, asyncio.get_running_loop(), clock))
                found[0].unread = lambda: _unread(uvicorn)
                started.set()
                await uvicorn.serve([sock])

    def work() -> None:
        try:
            asyncio.run(life())
        except BaseException as error:
            failed.append(error)
        finally:
            started.set()

    thread = threading.Thread(target=work, name="server")
    thread.start()
    try:
        started.wait()
        if failed:
            raise failed[0]
        yield found[0]
    finally:
        for house in found:
            house.close()
        for uvicorn in uvicorns:
            uvicorn.should_exit = True
        thread.join()
    if failed:
        raise failed[0]


def token_of(link: str) -> str:
    """Return the token in a link that somebody is given."""
    return parse_qs(urlsplit(link).query)["token"][0]
