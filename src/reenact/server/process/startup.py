"""Start of a server on a data folder and a database, and rotation of its audit key.

Both are created when they are missing.


DATA/lock         held by the only server that uses the folder; shared if the database is elsewhere
DATA/keys/        seeds that sign the audit log and the commands, readable by their owner; seeds that
                  were replaced by a rotation are next to them
DATA/reenact.db   everything with a tenant, unless a different database is configured
DATA/blobs/       recordings and captures, unless they are stored elsewhere
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, Protocol

import msgspec
from sqlalchemy import select

from reenact._system import entropy, start_clock
from reenact.audit.keys import Signer
from reenact.errors import UsageError
from reenact.server.audit.log import Auditor
from reenact.server.auth.credentials import SECRET_SIZE, Passwords, hash_secret
from reenact.server.auth.oidc.provider import OidcSettings, Provider
from reenact.server.blobs import Blobs, open_blobs
from reenact.server.http.admission import Intake
from reenact.server.notifications import Notifications, postgres_notifications
from reenact.server.problems import Problem
from reenact.server.runtime import Limits, Server, Timings
from reenact.server.storage import setup
from reenact.server.storage.database import Database
from reenact.server.storage.engines import SCHEMES, check_address, connect, open_file, open_postgres
from reenact.server.storage.setup import DeploymentFacts, Keys
from reenact.server.storage.tables import TENANTS
from reenact.server.telemetry.targets import ExportTarget

__all__ = [
    "ENTROPY",
    "NEXT",
    "DatabaseLocation",
    "OpenServer",
    "World",
    "choose_database",
    "folder_of",
    "make_id",
    "make_seed",
    "migrate_only",
    "open_server",
    "read_seed",
    "rotate_audit_key",
    "take_over",
]

_DATABASE: Final = "reenact.db"
_KEYS: Final = ("audit", "commands")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?")


class World(msgspec.Struct, frozen=True):
    """Seams of a server: clock, randomness, limits, settings. Tests have their own."""

    now: Callable[[], int] = msgspec.field(default_factory=start_clock)
    secret: Callable[[int], bytes] = entropy
    limits: Limits = Limits()
    timings: Timings = Timings()
    password_cost: int = 1 << 15
    exports: dict[str, ExportTarget] = {}
    oidc: OidcSettings | None = None
    public_url: str = ""


class OpenServer(msgspec.Struct, frozen=True):
    """A started server.

    ``setup_token`` is part of the one-time link, and empty once an account exists.
    """

    server: Server
    setup_token: str

    def __repr__(self) -> str:
        return "OpenServer()"


@asynccontextmanager
async def open_server(
    data: Path,
    name: str = "",
    world: World | None = None,
    *,
    database: str = "",
    blobs: str = "",
    alone: bool = False,
) -> AsyncIterator[OpenServer]:
    """The server on ``data``, until the block ends. ``name`` is the deployment's, and is settled when
    it is new. Raises :class:`UsageError`.

    ``database`` is the address of a PostgreSQL database, which several servers may share; without
    one it is a file in ``data``, and the server is alone; ``alone`` has it so there, too. ``blobs``
    is another folder for those, or ``s3://bucket/prefix``."""
    world = world or World()
    if name and not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a deployment", hint="use a host name such as reenact.example.com"
        )
    place = choose_database(data / _DATABASE, database)
    with folder_of(data, alone=alone or not database):
        found = await _settle(place, data, name, world)
        kept = open_blobs(blobs, data / "blobs")
        opened = place.open()
        try:
            async with place.notifications() as notifications:
                yield OpenServer(
                    _assemble(opened, kept, notifications, data, found, world),
                    await _new_link(opened, world) if found.waiting else "",
                )
        finally:
            await opened.close()


async def migrate_only(data: Path, *, database: str = "", role: str = "") -> None:
    """Make the tables or bring them up to date, as the role in ``database``, let ``role`` serve
    with them, and end. Raises :class:`UsageError`."""
    place = choose_database(data / _DATABASE, database)
    if database:
        await _prepare(place, role)
        return
    with folder_of(data, alone=True):
        await _prepare(place, role)


async def _prepare(place: DatabaseLocation, role: str) -> None:
    await place.check()
    opened = place.open_patiently()
    try:
        await setup.prepare_tables(opened, role)
    except Problem as problem:
        raise UsageError(
            problem.message, hint=problem.hint or "is the database running?"
        ) from problem
    finally:
        await opened.close()


async def _settle(place: DatabaseLocation, data: Path, name: str, world: World) -> DeploymentFacts:
    chosen = name or f"reenact-{world.secret(6).hex()}.internal"

    def make_keys() -> Keys:
        for key in _KEYS:
            make_seed(data / "keys" / key, world.secret)
        return _keys(data, chosen)

    await place.check()
    database = place.open_patiently()
    try:
        found = await setup.settle(database, chosen, world.now(), make_keys)
        _finish_rotation(found, data)
        _check(found, name, data)
        await setup.bind_keys(database, _keys(data, found.name))
        return found
    except Problem as problem:
        raise UsageError(
            problem.message, hint=problem.hint or "is the database running?"
        ) from problem
    finally:
        await database.close()


def _finish_rotation(found: DeploymentFacts, data: Path) -> None:
    """The last step of a change of keys that was interrupted, see ``rotating``."""
    path, name = data / "keys" / "audit", f"{found.name}/audit"
    new = path.with_name(f"{path.name}{NEXT}")
    if new.exists() and Signer(name, read_seed(new)).key.to_text() == found.keys.audit_key:
        take_over(path, Signer(name, read_seed(path)).key.id.hex())


def _check(found: DeploymentFacts, name: str, data: Path) -> None:
    if name and name != found.name:
        raise UsageError(
            f"this deployment is called {found.name}, and its audit logs are signed in that name",
            hint=f"leave --name out, or say --name {found.name}",
        )
    if _keys(data, found.name) != found.keys and found.keys.audit_key:
        raise UsageError(
            f"the keys in {data / 'keys'} do not belong to {found.name}",
            hint="copy the folder keys from a server of this deployment, or from a backup",
        )


def _signers(data: Path, deployment: str) -> tuple[Signer, Signer]:
    audit, commands = (
        Signer(f"{deployment}/{key}", read_seed(data / "keys" / key)) for key in _KEYS
    )
    return audit, commands


def _keys(data: Path, deployment: str) -> Keys:
    audit, commands = _signers(data, deployment)
    return Keys(audit.key.to_text(), commands.key.to_text())


def _assemble(
    database: Database,
    blobs: Blobs,
    notifications: Notifications,
    data: Path,
    found: DeploymentFacts,
    world: World,
) -> Server:
    audit, commands = _signers(data, found.name)

    def new_id(prefix: str) -> str:
        return make_id(prefix, world.now(), world.secret(ENTROPY))

    return Server(
        database=database,
        blobs=blobs,
        auditor=Auditor(audit, found.name, world.now, world.secret),
        notifications=notifications,
        signer=commands,
        deployment=found.name,
        data=data,
        now=world.now,
        new_id=new_id,
        secret=world.secret,
        limits=world.limits,
        timings=world.timings,
        passwords=Passwords(world.password_cost, world.secret),
        intake=Intake(
            world.limits.held, world.limits.turns, world.limits.reads, world.limits.waiting
        ),
        exports=world.exports,
        oidc=None if world.oidc is None else Provider(world.oidc, world.now),
        public_url=world.public_url,
    )


async def _new_link(database: Database, world: World) -> str:
    """Only its hash is kept, and so each start has another one until one is used."""
    token = world.secret(SECRET_SIZE).hex()
    await setup.renew_setup(database, hash_secret(token))
    return token


class DatabaseLocation(Protocol):
    """A database that servers can open."""

    async def check(self) -> None:
        """Raise :class:`UsageError` if the database cannot be used."""

    def open(self) -> Database: ...

    def open_patiently(self) -> Database:
        """Open the database for statements without a time limit."""

    def notifications(self) -> AbstractAsyncContextManager[Notifications]:
        """Among all servers on this database."""


def choose_database(file: Path, address: str) -> DatabaseLocation:
    """``file``, unless there is an ``address``. Raises :class:`UsageError`."""
    if not address:
        return _File(file)
    if address.partition("://")[0] not in SCHEMES:
        raise UsageError(
            "a database is postgresql://…, or none is named",
            hint="leave --database out for a file in the folder of --data",
        )
    check_address(address)
    return _Postgres(address)


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    async def check(self) -> None:
        """Create the file if it is missing, readable only by its owner.

        SQLite gives its other files the same mode.
        """
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def open(self) -> Database:
        return open_file(self._path)

    open_patiently = open

    @asynccontextmanager
    async def notifications(self) -> AsyncIterator[Notifications]:
        yield Notifications()


class _Postgres:
    def __init__(self, address: str) -> None:
        self._address = address

    async def check(self) -> None:
        try:
            connection = await connect(self._address)
        except OSError as error:
            raise UsageError(
                f"the database cannot be used: {error}",
                hint="is it running, and are host, role, password and name right?",
            ) from None
        await connection.close()

    def open(self) -> Database:
        return open_postgres(self._address)

    def open_patiently(self) -> Database:
        return open_postgres(self._address, longest=None)

    def notifications(self) -> AbstractAsyncContextManager[Notifications]:
        return postgres_notifications(self._address)


ENTROPY: Final = 10
"""Random bytes in an id."""
_DIGITS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH: Final = 26


def make_id(prefix: str, at: int, chance: bytes) -> str:
    """``<prefix>_`` and 26 digits of base 32: 48 bits of ``at`` in milliseconds, 80 of ``chance``."""
    number = (at << 8 * ENTROPY) | int.from_bytes(chance[:ENTROPY])
    digits = (_DIGITS[number >> 5 * place & 31] for place in reversed(range(_LENGTH)))
    return f"{prefix}_{''.join(digits)}"


_KEY: Final = "audit"


async def rotate_audit_key(
    data: Path, world: World | None = None, *, database: str = ""
) -> tuple[str, int]:
    """Hand all logs over to a new key, and return its id and the number of logs.

    The new seed is on disk before the logs are handed over to it, all in one transaction. Only then
    it replaces the old one. After an interruption the deployment has one key, and its seed exists:
    a server that starts takes the last step.

    Raises :class:`UsageError` without a deployment, or while a server uses ``data``.
    """
    path = data / "keys" / _KEY
    if not path.exists():
        raise UsageError(
            f"no deployment found at {data}",
            hint="specify its folder with --data and its database with --database",
        )
    world = world or World()
    async with open_server(data, "", world, database=database, alone=True) as opened:
        server = opened.server
        make_seed(path.with_name(f"{_KEY}{NEXT}"), world.secret)
        name = f"{server.deployment}/{_KEY}"
        old = Signer(name, read_seed(path))
        new = Signer(name, read_seed(path.with_name(f"{_KEY}{NEXT}")))
        count = await _hand_over(server, new)
        take_over(path, old.key.id.hex())
    return new.key.id.hex(), count


async def _hand_over(server: Server, new: Signer) -> int:
    auditor: Auditor = server.auditor
    async with server.database.platform(write=True) as platform:
        tenants = [row.id for row in await platform.all(select(TENANTS.c.id))]
        handed = [await auditor.rotate(platform.scope(tenant), new) for tenant in sorted(tenants)]
        await setup.change_audit_key(platform, new.key.to_text())
    return sum(handed)


@contextmanager
def folder_of(data: Path, *, alone: bool) -> Iterator[None]:
    """``data``, made where it is missing. ``alone``: no other server uses it until the block ends.
    Otherwise others may, if they are not alone either. Raises :class:`UsageError`."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"{data} cannot be used: {error.strerror}", hint="name another folder with --data"
        ) from None
    try:
        _lock(fd, data, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, data: Path, kind: int) -> None:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"another server uses {data}", hint="stop it, or name another folder with --data"
        ) from None


NEXT: Final = ".next"
"""File name suffix of a key that is about to replace the current one."""
_SIZE: Final = 32


def make_seed(path: Path, secret: Callable[[int], bytes]) -> None:
    """Write a new seed, unless there is one from a set-up that was interrupted."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.exists():
        return
    beside = path.with_name(f"{path.name}.tmp")
    beside.unlink(missing_ok=True)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(secret(_SIZE).hex().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)


def read_seed(path: Path) -> bytes:
    """Return the seed.

    Raises :class:`UsageError` if the file is missing, damaged or readable by others. No message
    contains the seed.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError(f"others can read {path}", hint=f"chmod 600 {path}")
        seed = bytes.fromhex(path.read_text("ascii"))
    except OSError as error:
        raise UsageError(
            f"the key {path} cannot be read: {error.strerror}",
            hint="restore it from a copy; without it nothing can be signed",
        ) from None
    except ValueError:
        seed = b""
    if len(seed) != _SIZE:
        raise UsageError(f"{path} is not a key", hint="restore it from a copy")
    return seed


def take_over(path: Path, retired: str) -> None:
    """Replace the key at ``path`` by the new one next to it, and store the old one as
    ``<name>.<retired>``.

    It can be repeated after an interruption, also by several processes.
    """
    with contextlib.suppress(FileExistsError):
        os.link(path, path.with_name(f"{path.name}.{retired}"))
    with contextlib.suppress(FileNotFoundError):
        path.with_name(f"{path.name}{NEXT}").replace(path)
