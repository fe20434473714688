"""What somebody who asked for a replay may do now, which need not be what they could do then."""

from __future__ import annotations

from sqlalchemy import select

from reenact.server.access import Grant
from reenact.server.ports import TenantFacts
from reenact.server.storage.database import Scope
from reenact.server.storage.people_rows import find_key, find_user, grants_of
from reenact.server.storage.tables import TENANTS

__all__ = ["grants_now", "key_holds", "tenant_now"]


async def tenant_now(scope: Scope) -> TenantFacts:
    """The scope's tenant. Raises :class:`LookupError` when it is gone."""
    row = await scope.one(select(TENANTS).where(TENANTS.c.id == scope.tenant))
    if row is None:
        raise LookupError(f"there is no tenant {scope.tenant}")
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
