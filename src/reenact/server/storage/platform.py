"""Queries that cross tenants: credentials before the tenant is known, tenants, metrics."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import delete, func, insert, select, text, update

from reenact.server.auth.permissions import Tier
from reenact.server.runtime import TenantFacts
from reenact.server.storage.database import Platform, to_value
from reenact.server.storage.people import Key, User
from reenact.server.storage.tables import (
    AGENTS,
    ATTEMPTS,
    BATCH_ITEMS,
    BATCHES,
    COMMANDS,
    DEPLOYMENT,
    KEYS,
    OPEN,
    REPLAYS,
    SESSIONS,
    TENANTS,
    USERS,
)

__all__ = [
    "Attempts",
    "Numbers",
    "Session",
    "add_session",
    "add_tenant",
    "attempts",
    "change_tenant",
    "clear_setup",
    "close_session",
    "find_invited",
    "forget_attempts",
    "is_there",
    "key_by_id",
    "note_attempt",
    "read_numbers",
    "session_by_hash",
    "setup_hash",
    "tenant_by_id",
    "tenant_ids",
    "tenants",
    "touch_key",
    "touch_session",
    "users_by_email",
]


class Session(msgspec.Struct, frozen=True):
    """A session. ``hash`` is the hash of the secret in the cookie."""

    tenant: str
    hash: str
    user_id: str
    created_at: int
    last_seen_at: int
    expires_at: int


class Attempts(msgspec.Struct, frozen=True):
    """Consecutive failed sign-ins, and the end of the block."""

    failures: int = 0
    until: int = 0


async def is_there(platform: Platform) -> bool:
    """Can the database be read?"""
    return await platform.one(select(DEPLOYMENT.c.id)) is not None


async def setup_hash(platform: Platform) -> str:
    """That of the one-time link; empty when it was used."""
    row = await platform.one(select(DEPLOYMENT.c.setup_hash))
    return "" if row is None else str(row.setup_hash)


async def clear_setup(platform: Platform) -> None:
    """The one-time link was used."""
    await platform.run(update(DEPLOYMENT).values(setup_hash=""))


async def key_by_id(platform: Platform, key: str) -> Key | None:
    """In whichever tenant, also when it is revoked; None when there is none."""
    row = await platform.one(select(KEYS).where(KEYS.c.id == key))
    return None if row is None else to_value(row, Key)


async def touch_key(platform: Platform, key: str, now: int) -> None:
    """It was used ``now``, in milliseconds."""
    await platform.run(update(KEYS).where(KEYS.c.id == key).values(last_used_at=now))


async def users_by_email(platform: Platform, email: str) -> list[User]:
    """In every tenant that has such an account."""
    query = select(USERS).where(USERS.c.email == email, USERS.c.removed_at == 0)
    return [to_value(row, User) for row in await platform.all(query.order_by(USERS.c.tenant))]


async def find_invited(platform: Platform, invite_hash: str) -> User | None:
    """Whose one-time link it is."""
    query = select(USERS).where(USERS.c.invite_hash == invite_hash, USERS.c.removed_at == 0)
    row = await platform.one(query)
    return None if row is None or not invite_hash else to_value(row, User)


async def add_session(platform: Platform, session: Session, now: int) -> None:
    """Store a session and delete expired ones."""
    await platform.run(delete(SESSIONS).where(SESSIONS.c.expires_at < now))
    await platform.run(insert(SESSIONS).values(**msgspec.structs.asdict(session)))


async def session_by_hash(platform: Platform, kept: str) -> Session | None:
    """In whichever tenant, also when it is over; None when there is none."""
    row = await platform.one(select(SESSIONS).where(SESSIONS.c.hash == kept))
    return None if row is None else to_value(row, Session)


async def touch_session(platform: Platform, kept: str, now: int) -> None:
    """It was used ``now``, in milliseconds."""
    await platform.run(update(SESSIONS).where(SESSIONS.c.hash == kept).values(last_seen_at=now))


async def close_session(platform: Platform, kept: str) -> None:
    """The session with this hash ends, if there is one."""
    await platform.run(delete(SESSIONS).where(SESSIONS.c.hash == kept))


async def attempts(platform: Platform, key: str) -> Attempts:
    """Return the failed sign-ins of ``key``, an account or an address."""
    row = await platform.one(select(ATTEMPTS).where(ATTEMPTS.c.key == key))
    return Attempts() if row is None else Attempts(row.failures, row.until)


async def note_attempt(platform: Platform, key: str, found: Attempts) -> None:
    """``found`` takes the place of what was known about ``key``."""
    await forget_attempts(platform, key)
    values = {"key": key, "failures": found.failures, "until": found.until}
    await platform.run(insert(ATTEMPTS).values(**values))


async def forget_attempts(platform: Platform, key: str) -> None:
    """Nothing is known about ``key`` any more."""
    await platform.run(delete(ATTEMPTS).where(ATTEMPTS.c.key == key))


async def tenants(platform: Platform) -> list[TenantFacts]:
    """All, in the order of their ids."""
    return [_tenant(row) for row in await platform.all(select(TENANTS).order_by(TENANTS.c.id))]


async def tenant_by_id(platform: Platform, tenant: str) -> TenantFacts | None:
    """None when there is none."""
    row = await platform.one(select(TENANTS).where(TENANTS.c.id == tenant))
    return None if row is None else _tenant(row)


async def tenant_ids(platform: Platform, text: str) -> frozenset[str]:
    """Return the ids of the tenants that ``text`` means: the one with this id, otherwise those with
    this name."""
    if await tenant_by_id(platform, text) is not None:
        return frozenset({text})
    named = await platform.all(select(TENANTS.c.id).where(TENANTS.c.name == text))
    return frozenset(row.id for row in named)


async def add_tenant(platform: Platform, tenant: TenantFacts, now: int) -> None:
    """Keep a new one."""
    row = {**msgspec.structs.asdict(tenant), "dedicated": int(tenant.dedicated)}
    await platform.run(insert(TENANTS).values(**row, created_at=now))


async def change_tenant(platform: Platform, tenant: str, tier: Tier, dedicated: bool) -> None:
    """Sets both; nothing happens when there is no such tenant."""
    wanted = update(TENANTS).where(TENANTS.c.id == tenant)
    await platform.run(wanted.values(tier=tier, dedicated=int(dedicated)))


def _tenant(row: Any) -> TenantFacts:
    return TenantFacts(row.id, row.name, row.tier, bool(row.dedicated))


_OPEN = ("requested", "delivered", "running")
_DRIVEN = ("running", "cancelling")


class Numbers(msgspec.Struct, frozen=True):
    """Gauges over all tenants; replays and batches by state."""

    replays: dict[str, int]
    agents: int
    spooled: int
    commands: int
    batches: dict[str, int]
    waiting: int
    tenants: int


async def read_numbers(platform: Platform, heard_since: int, now: int) -> Numbers:
    """As they are now. Nothing here looks at what has ended."""
    online = (AGENTS.c.last_seen_at > heard_since, AGENTS.c.gone_at == 0)
    agents = select(
        func.count().label("agents"), func.coalesce(func.sum(AGENTS.c.spooled), 0).label("spooled")
    ).where(*online)
    pending = select(func.count()).where(COMMANDS.c.done_at == 0, COMMANDS.c.expires_at > now)
    driven = BATCHES.c.state.in_(_DRIVEN)
    waiting = (
        select(func.count())
        .select_from(BATCH_ITEMS)
        .join(
            BATCHES,
            (BATCHES.c.tenant == BATCH_ITEMS.c.tenant)
            & (BATCHES.c.batch_id == BATCH_ITEMS.c.batch_id),
        )
        .where(driven, BATCH_ITEMS.c.state == "waiting")
    )
    found = await platform.one(agents)
    return Numbers(
        replays=await _by_state(platform, REPLAYS, text(OPEN), _OPEN),
        agents=int(found.agents) if found else 0,
        spooled=int(found.spooled) if found else 0,
        commands=await _count(platform, pending.select_from(COMMANDS)),
        batches=await _by_state(platform, BATCHES, driven, _DRIVEN),
        waiting=await _count(platform, waiting),
        tenants=await _count(platform, select(func.count()).select_from(TENANTS)),
    )


async def _count(platform: Platform, query: Any) -> int:
    row = await platform.one(query)
    return int(row[0]) if row else 0


async def _by_state(
    platform: Platform, table: Any, which: Any, states: tuple[str, ...]
) -> dict[str, int]:
    """0 for states in which there is nothing."""
    counted = select(table.c.state, func.count().label("rows")).where(which).group_by(table.c.state)
    found = {row.state: int(row.rows) for row in await platform.all(counted)}
    return {state: found.get(state, 0) for state in states}
