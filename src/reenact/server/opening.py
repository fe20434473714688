"""A server on a folder: made when it is empty, looked at when it is not, and locked.

DATA/lock         held by the one server that uses the folder
DATA/keys/        the secrets that sign the audit log and the commands, readable by their owner
DATA/reenact.db   everything with a tenant
DATA/blobs/       recordings and captures
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import msgspec

from reenact._system import entropy, start_clock
from reenact.audit.keys import Signer
from reenact.errors import UsageError
from reenact.server.audit import Auditor
from reenact.server.blobs import Blobs
from reenact.server.hints import Hints
from reenact.server.ids import ENTROPY, make_id
from reenact.server.people.credentials import SECRET_SIZE, hash_secret
from reenact.server.people.passwords import Passwords
from reenact.server.ports import Limits, Server, Timings
from reenact.server.signing_keys import make_seed, read_seed
from reenact.server.storage import setting_up
from reenact.server.storage.database import Database, open_database

__all__ = ["OpenServer", "World", "open_server"]

_DATABASE: Final = "reenact.db"
_KEYS: Final = ("audit", "commands")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?")


class World(msgspec.Struct, frozen=True):
    """What a server takes from outside; tests have their own."""

    now: Callable[[], int] = msgspec.field(default_factory=start_clock)
    secret: Callable[[int], bytes] = entropy
    limits: Limits = Limits()
    timings: Timings = Timings()
    password_cost: int = 1 << 15


class OpenServer(msgspec.Struct, frozen=True):
    """``setup_token`` is that of the one-time link; empty when there is an account already."""

    server: Server
    setup_token: str

    def __repr__(self) -> str:
        return "OpenServer()"


@asynccontextmanager
async def open_server(
    data: Path, name: str = "", world: World | None = None
) -> AsyncIterator[OpenServer]:
    """The server on ``data``, alone, until the block ends. ``name`` is the deployment's, and is
    settled when the folder is new. Raises :class:`UsageError`."""
    world = world or World()
    if name and not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a deployment", hint="use a host name such as reenact.example.com"
        )
    with _alone(data):
        database = open_database(data / _DATABASE)
        try:
            deployment = await _settle(database, data, name, world)
            yield OpenServer(
                _assemble(database, data, deployment.name, world),
                await _new_link(database, world) if deployment.waiting else "",
            )
        finally:
            await database.close()


@contextmanager
def _alone(data: Path) -> Iterator[None]:
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"{data} cannot be used: {error.strerror}", hint="name another folder with --data"
        ) from None
    try:
        _lock(fd, data)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, data: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"another server uses {data}", hint="stop it, or name another folder with --data"
        ) from None


async def _settle(
    database: Database, data: Path, name: str, world: World
) -> setting_up.DeploymentFacts:
    if await setting_up.is_empty(database):
        for key in _KEYS:
            make_seed(data / "keys" / key, world.secret)
        chosen = name or f"reenact-{world.secret(6).hex()}.internal"
        await setting_up.set_up(database, chosen, world.now())
    found = await setting_up.read_deployment(database)
    if name and name != found.name:
        raise UsageError(
            f"this deployment is called {found.name}, and its audit logs are signed in that name",
            hint=f"leave --name out, or say --name {found.name}",
        )
    return found


def _assemble(database: Database, data: Path, deployment: str, world: World) -> Server:
    audit, commands = (
        Signer(f"{deployment}/{key}", read_seed(data / "keys" / key)) for key in _KEYS
    )

    def new_id(prefix: str) -> str:
        return make_id(prefix, world.now(), world.secret(ENTROPY))

    return Server(
        database=database,
        blobs=Blobs(data / "blobs"),
        auditor=Auditor(audit, deployment, world.now, world.secret),
        hints=Hints(),
        signer=commands,
        deployment=deployment,
        data=data,
        now=world.now,
        new_id=new_id,
        secret=world.secret,
        limits=world.limits,
        timings=world.timings,
        passwords=Passwords(world.password_cost, world.secret),
    )


async def _new_link(database: Database, world: World) -> str:
    """Only its hash is kept, and so each start has another one until one is used."""
    token = world.secret(SECRET_SIZE).hex()
    await setting_up.renew_setup(database, hash_secret(token))
    return token
