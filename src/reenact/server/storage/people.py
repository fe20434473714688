"""Queries of the users, grants, keys, sessions, environments and OpenID identities of one tenant."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from sqlalchemy import Row, select

from reenact.server.auth.permissions import (
    EnvironmentKind,
    Grant,
    Permission,
    is_grantable,
    permissions_of,
)
from reenact.server.runtime import TenantFacts
from reenact.server.storage.database import Scope, to_value
from reenact.server.storage.tables import (
    ENVIRONMENTS,
    GRANTS,
    IDENTITIES,
    KEYS,
    SESSIONS,
    TENANTS,
    USERS,
)

__all__ = [
    "Environment",
    "Key",
    "User",
    "add_grant",
    "add_key",
    "add_user",
    "environment_kind",
    "environments",
    "find_key",
    "find_user",
    "grants_now",
    "grants_of",
    "grants_of_all",
    "ids_of",
    "key_holds",
    "keys",
    "link_identity",
    "names_of",
    "remove_grant",
    "remove_user",
    "revoke_key",
    "set_environment",
    "set_password",
    "subject_of",
    "tenant_now",
    "users",
    "users_with",
]

_SAME = 500


class User(msgspec.Struct, frozen=True):
    """A user. ``password`` is a hash; ``removed_at`` is 0 for active users."""

    tenant: str
    id: str
    email: str
    password: str
    invite_hash: str
    invite_expires_at: int
    created_at: int
    removed_at: int = 0


class Key(msgspec.Struct, frozen=True):
    """A key. ``hash`` is the hash of its secret; times are 0 for never."""

    tenant: str
    id: str
    kind: str
    name: str
    hash: str
    app: str
    environment: str
    owner: str
    created_at: int
    expires_at: int
    revoked_at: int = 0
    last_used_at: int = 0

    def is_good(self, now: int) -> bool:
        return not self.revoked_at and (not self.expires_at or now < self.expires_at)


class Environment(msgspec.Struct, frozen=True):
    """An environment with a configured kind."""

    name: str
    kind: EnvironmentKind


async def add_user(scope: Scope, user: User) -> None:
    """Keep a new one."""
    await scope.add(USERS, msgspec.structs.asdict(user))


async def find_user(scope: Scope, *, id: str = "", email: str = "") -> User | None:
    """One who is there, by id or by e-mail address."""
    query = scope.select(USERS).where(USERS.c.removed_at == 0)
    query = query.where(USERS.c.id == id) if id else query.where(USERS.c.email == email)
    row = await scope.one(query)
    return None if row is None else to_value(row, User)


async def users(scope: Scope, before: str, limit: int) -> list[User]:
    """Return the active users, newest first."""
    query = scope.select(USERS).where(USERS.c.removed_at == 0)
    if before:
        query = query.where(USERS.c.id < before)
    return [
        to_value(row, User)
        for row in await scope.all(query.order_by(USERS.c.id.desc()).limit(limit))
    ]


async def names_of(scope: Scope, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of users and keys by id, including removed ones, without unknown ids."""
    wanted = [*ids]
    users = scope.select(USERS, USERS.c.id, USERS.c.email).where(USERS.c.id.in_(wanted))
    keys = scope.select(KEYS, KEYS.c.id, KEYS.c.name).where(KEYS.c.id.in_(wanted))
    found = {row.id: row.email for row in await scope.all(users)}
    return found | {row.id: row.name for row in await scope.all(keys)}


async def ids_of(scope: Scope, name: str) -> set[str]:
    """Return the ids of users with this e-mail address and keys with this name, including removed
    ones."""
    users = scope.select(USERS, USERS.c.id).where(USERS.c.email == name)
    keys = scope.select(KEYS, KEYS.c.id).where(KEYS.c.name == name)
    return {row.id for chosen in (users, keys) for row in await scope.all(chosen.limit(_SAME))}


async def set_password(
    scope: Scope, user: str, *, password: str, invite_hash: str = "", invite_expires_at: int = 0
) -> None:
    """Set a password, or with an empty one a new invitation. All sessions of the user end."""
    await scope.run(
        scope.update(USERS)
        .where(USERS.c.id == user)
        .values(password=password, invite_hash=invite_hash, invite_expires_at=invite_expires_at)
    )
    await scope.run(scope.delete(SESSIONS).where(SESSIONS.c.user_id == user))


async def remove_user(scope: Scope, user: str, now: int) -> None:
    """With their sessions, grants and keys. Their row stays, without password, for their name."""
    await set_password(scope, user, password="")
    await scope.run(scope.update(USERS).where(USERS.c.id == user).values(removed_at=now))
    owned = scope.update(KEYS).where(KEYS.c.owner == user, KEYS.c.revoked_at == 0)
    await scope.run(owned.values(revoked_at=now))
    held = (GRANTS.c.holder_type == "user", GRANTS.c.holder_id == user)
    await scope.run(scope.delete(GRANTS).where(*held))


async def add_grant(
    scope: Scope, holder_type: str, holder: str, grant: Grant, now: int, by: str
) -> None:
    """Store a grant. ``holder_type`` is ``user`` or ``key``, ``by`` the id of the granting user."""
    await scope.add(
        GRANTS,
        {
            "id": grant.id,
            "holder_type": holder_type,
            "holder_id": holder,
            "what": grant.what,
            "environment": grant.environment,
            "app": grant.app,
            "expires_at": grant.expires_at,
            "created_at": now,
            "created_by": by,
        },
    )


async def remove_grant(scope: Scope, user: str, grant: str) -> str | None:
    """Remove a grant and return it; None if it does not exist."""
    found = (GRANTS.c.holder_type == "user", GRANTS.c.holder_id == user, GRANTS.c.id == grant)
    row = await scope.one(scope.select(GRANTS).where(*found))
    await scope.run(scope.delete(GRANTS).where(*found))
    return None if row is None else str(row.what)


async def grants_of(scope: Scope, holder_type: str, holder: str) -> tuple[Grant, ...]:
    """Return the grants of a holder, including expired ones."""
    return (await grants_of_all(scope, holder_type, [holder]))[holder]


async def grants_of_all(
    scope: Scope, holder_type: str, holders: Iterable[str]
) -> dict[str, tuple[Grant, ...]]:
    """Return the grants of several holders."""
    found: dict[str, tuple[Grant, ...]] = dict.fromkeys(holders, ())
    query = scope.select(GRANTS).where(
        GRANTS.c.holder_type == holder_type, GRANTS.c.holder_id.in_(found)
    )
    for row in await scope.all(query.order_by(GRANTS.c.id)):
        if is_grantable(row.what):
            found[row.holder_id] += (_grant(row),)
    return found


def _grant(row: Row[tuple[object, ...]]) -> Grant:
    return Grant(row.what, row.environment, row.app, row.expires_at, row.id)


async def users_with(scope: Scope, permission: Permission) -> set[str]:
    """Ids of users who have it everywhere, for good."""
    query = scope.select(GRANTS).where(
        GRANTS.c.holder_type == "user",
        GRANTS.c.environment == "",
        GRANTS.c.app == "",
        GRANTS.c.expires_at == 0,
    )
    rows = await scope.all(query)
    return {row.holder_id for row in rows if permission in permissions_of(row.what)}


async def add_key(scope: Scope, key: Key) -> None:
    """Keep a new one."""
    await scope.add(KEYS, msgspec.structs.asdict(key))


async def find_key(scope: Scope, key: str) -> Key | None:
    """By its id, also when it is revoked; None when this tenant has none."""
    row = await scope.one(scope.select(KEYS).where(KEYS.c.id == key))
    return None if row is None else to_value(row, Key)


async def keys(scope: Scope, before: str, limit: int) -> list[Key]:
    """Return the unrevoked keys, newest first."""
    query = scope.select(KEYS).where(KEYS.c.revoked_at == 0)
    if before:
        query = query.where(KEYS.c.id < before)
    return [
        to_value(row, Key) for row in await scope.all(query.order_by(KEYS.c.id.desc()).limit(limit))
    ]


async def revoke_key(scope: Scope, key: str, now: int) -> bool:
    """False when there is no such key that is still good."""
    wanted = scope.update(KEYS).where(KEYS.c.id == key, KEYS.c.revoked_at == 0)
    return bool((await scope.run(wanted.values(revoked_at=now))).rowcount)


async def environments(scope: Scope) -> list[Environment]:
    """Return the environments with a configured kind, by name."""
    rows = await scope.all(scope.select(ENVIRONMENTS).order_by(ENVIRONMENTS.c.name))
    return [Environment(row.name, row.kind) for row in rows]


async def environment_kind(scope: Scope, name: str) -> EnvironmentKind:
    """Return the kind of an environment. The default is production."""
    found = scope.select(ENVIRONMENTS, ENVIRONMENTS.c.kind).where(ENVIRONMENTS.c.name == name)
    row = await scope.one(found)
    return "non-production" if row is not None and row.kind == "non-production" else "production"


async def set_environment(scope: Scope, environment: Environment) -> None:
    """Store the kind of an environment."""
    await scope.run(scope.delete(ENVIRONMENTS).where(ENVIRONMENTS.c.name == environment.name))
    await scope.add(ENVIRONMENTS, msgspec.structs.asdict(environment))


async def tenant_now(scope: Scope) -> TenantFacts:
    """Return the scope's tenant. Raises :class:`LookupError` if it was deleted."""
    row = await scope.one(select(TENANTS).where(TENANTS.c.id == scope.tenant))
    if row is None:
        raise LookupError(f"tenant {scope.tenant} does not exist")
    return TenantFacts(row.id, row.name, row.tier, bool(row.dedicated))


async def key_holds(scope: Scope, key_id: str, now: int) -> bool:
    """Is the key still good?"""
    key = await find_key(scope, key_id)
    return key is not None and key.is_good(now)


async def grants_now(
    scope: Scope, holder: str, auth: str, credential: str, now: int
) -> tuple[Grant, ...]:
    """The grants of the user or key ``holder``, who showed ``credential``; none when the key was
    revoked, has expired, or its owner was removed."""
    if auth == "key":
        key = await find_key(scope, credential)
        if key is None or not key.is_good(now):
            return ()
        if not key.owner:
            return await grants_of(scope, "key", key.id)
        holder = key.owner
    user = await find_user(scope, id=holder)
    if user is None or user.removed_at:
        return ()
    return await grants_of(scope, "user", user.id)


async def subject_of(scope: Scope, user: str, issuer: str) -> str:
    """Empty before the first time."""
    query = scope.select(IDENTITIES, IDENTITIES.c.subject)
    row = await scope.one(query.where(IDENTITIES.c.user_id == user, IDENTITIES.c.issuer == issuer))
    return "" if row is None else str(row.subject)


async def link_identity(scope: Scope, user: str, issuer: str, subject: str, now: int) -> None:
    """From now on this user is ``subject`` to ``issuer``; ``now`` is in milliseconds."""
    values = {"user_id": user, "issuer": issuer, "subject": subject, "linked_at": now}
    await scope.add(IDENTITIES, values)
