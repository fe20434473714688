"""Who users are to OpenID providers."""

from __future__ import annotations

from reenact.server.storage.database import Scope
from reenact.server.storage.oidc_tables import IDENTITIES

__all__ = ["link_identity", "subject_of"]


async def subject_of(scope: Scope, user: str, issuer: str) -> str:
    """Empty before the first time."""
    query = scope.select(IDENTITIES, IDENTITIES.c.subject)
    row = await scope.one(query.where(IDENTITIES.c.user_id == user, IDENTITIES.c.issuer == issuer))
    return "" if row is None else str(row.subject)


async def link_identity(scope: Scope, user: str, issuer: str, subject: str, now: int) -> None:
    """From now on this user is ``subject`` to ``issuer``; ``now`` is in milliseconds."""
    values = {"user_id": user, "issuer": issuer, "subject": subject, "linked_at": now}
    await scope.add(IDENTITIES, values)
