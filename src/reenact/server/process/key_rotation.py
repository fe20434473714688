"""Changing the key that signs the audit logs, while no server runs.

The new seed is on disk before the logs are handed over to it, all in one transaction; only then it takes
the place of the old one. Whenever this is interrupted, the deployment has one key and its seed is there:
a server that starts takes the last step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import select

from reenact.audit.keys import Signer
from reenact.errors import UsageError
from reenact.server.audit.log import Auditor
from reenact.server.process.data_folder import NEXT, make_seed, read_seed, take_over
from reenact.server.process.startup import World, open_server
from reenact.server.runtime import Server
from reenact.server.storage import setup
from reenact.server.storage.tables import TENANTS

__all__ = ["rotate_audit_key"]

_KEY: Final = "audit"


async def rotate_audit_key(
    data: Path, world: World | None = None, *, database: str = ""
) -> tuple[str, int]:
    """Hand all logs over to a new key, and return its id and the number of logs.

    Raises :class:`UsageError` without a deployment, or while a server uses ``data``.
    """
    path = data / "keys" / _KEY
    if not path.exists():
        raise UsageError(
            f"there is no deployment at {data}",
            hint="name its folder with --data, and its --database",
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
