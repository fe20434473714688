"""A server on a folder and a database: made when they are empty, looked at when they are not.

DATA/lock         held by the one server that uses the folder; by each, if the database is elsewhere
DATA/keys/        the secrets that sign the audit log and the commands, readable by their owner; those
                  that did so before a change of keys are beside them
DATA/reenact.db   everything with a tenant, unless there is another database
DATA/blobs/       recordings and captures, unless they are elsewhere
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from reenact._system import entropy, start_clock
from reenact.audit.keys import Signer
from reenact.errors import UsageError
from reenact.server.audit import Auditor
from reenact.server.blobs import Blobs, open_blobs
from reenact.server.folders import folder_of
from reenact.server.hints import Hints
from reenact.server.ids import ENTROPY, make_id
from reenact.server.intake import Intake
from reenact.server.oidc.provider import Provider
from reenact.server.oidc.settings import OidcSettings
from reenact.server.people.credentials import SECRET_SIZE, hash_secret
from reenact.server.people.passwords import Passwords
from reenact.server.places import Place, choose_place
from reenact.server.ports import Limits, Server, Timings
from reenact.server.problems import Problem
from reenact.server.signing_keys import NEXT, make_seed, read_seed, take_over
from reenact.server.storage import setting_up
from reenact.server.storage.database import Database
from reenact.server.storage.setting_up import DeploymentFacts, Keys
from reenact.server.telemetry.targets import ExportTarget

__all__ = ["OpenServer", "World", "migrate_only", "open_server"]

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
    exports: dict[str, ExportTarget] = {}
    oidc: OidcSettings | None = None
    public_url: str = ""


class OpenServer(msgspec.Struct, frozen=True):
    """``setup_token`` is that of the one-time link; empty when there is an account already."""

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
    place = choose_place(data / _DATABASE, database)
    with folder_of(data, alone=alone or not database):
        found = await _settle(place, data, name, world)
        kept = open_blobs(blobs, data / "blobs")
        opened = place.open()
        try:
            async with place.hints() as hints:
                yield OpenServer(
                    _assemble(opened, kept, hints, data, found, world),
                    await _new_link(opened, world) if found.waiting else "",
                )
        finally:
            await opened.close()


async def migrate_only(data: Path, *, database: str = "", role: str = "") -> None:
    """Make the tables or bring them up to date, as the role in ``database``, let ``role`` serve
    with them, and end. Raises :class:`UsageError`."""
    place = choose_place(data / _DATABASE, database)
    if database:
        await _prepare(place, role)
        return
    with folder_of(data, alone=True):
        await _prepare(place, role)


async def _prepare(place: Place, role: str) -> None:
    await place.check()
    opened = place.open_patiently()
    try:
        await setting_up.prepare_tables(opened, role)
    except Problem as problem:
        raise UsageError(
            problem.message, hint=problem.hint or "is the database running?"
        ) from problem
    finally:
        await opened.close()


async def _settle(place: Place, data: Path, name: str, world: World) -> DeploymentFacts:
    chosen = name or f"reenact-{world.secret(6).hex()}.internal"

    def make_keys() -> Keys:
        for key in _KEYS:
            make_seed(data / "keys" / key, world.secret)
        return _keys(data, chosen)

    await place.check()
    database = place.open_patiently()
    try:
        found = await setting_up.settle(database, chosen, world.now(), make_keys)
        _finish_rotation(found, data)
        _check(found, name, data)
        await setting_up.bind_keys(database, _keys(data, found.name))
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
            f"the keys in {data / 'keys'} are not those of {found.name}",
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
    hints: Hints,
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
        hints=hints,
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
    await setting_up.renew_setup(database, hash_secret(token))
    return token
