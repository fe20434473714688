"""Grants as they are asked for: what may be granted, by whom."""

from __future__ import annotations

from typing import Final

from reenact.server.auth.permissions import GRANTABLE, ROLES, Grant, is_grantable, permissions_of
from reenact.server.context import RequestContext
from reenact.server.people.schema import GrantRequest
from reenact.server.problems import Problem
from reenact.server.storage import people
from reenact.server.storage.database import Scope

__all__ = ["check_future", "check_keeps_an_admin", "check_may_manage", "grant_of"]

_LONGEST: Final = 200
_OF_THE_PLATFORM: Final = frozenset({"platform:admin", "metrics:read"})
"""Roles and permissions that reach beyond one tenant."""


def grant_of(context: RequestContext, asked: GrantRequest) -> Grant:
    """Return a new grant.

    Raises :class:`Problem`: platform roles require a platform administrator.
    """
    if not is_grantable(asked.role):
        raise Problem(
            "invalid",
            f"unknown role or permission {asked.role[:_LONGEST]!r}",
            hint=f"roles: {', '.join(ROLES)}; permissions: {', '.join(GRANTABLE)}",
            field="role",
        )
    for name in ("environment", "app"):
        if len(getattr(asked, name)) > _LONGEST:
            raise Problem("invalid", f"{name} is too long", field=name)
    check_future(context, asked.expires_at)
    if permissions_of(asked.role) & _OF_THE_PLATFORM:
        context.require("platform:admin")
    return Grant(
        asked.role, asked.environment, asked.app, asked.expires_at, context.server.new_id("grt")
    )


def check_future(context: RequestContext, expires_at: int) -> None:
    """Raises :class:`Problem` for an end that is past; 0 is none."""
    if expires_at < 0 or (expires_at and expires_at <= context.server.now()):
        raise Problem("invalid", "expiresAt is in the past", field="expiresAt")


async def check_may_manage(context: RequestContext, scope: Scope, user: str) -> None:
    """Raise :class:`Problem` if ``user`` is a platform administrator and the caller is not: a new
    password link would let the caller take over the account."""
    grants = await people.grants_of(scope, "user", user)
    if any("platform:admin" in permissions_of(grant.what) for grant in grants):
        context.require("platform:admin")


async def check_keeps_an_admin(scope: Scope) -> None:
    """Raise :class:`Problem` if no user would be left who can grant permissions."""
    if not await people.users_with(scope, "tenant:admin"):
        raise Problem(
            "conflict",
            "this would leave the tenant without an administrator",
            hint="grant the role tenant admin to somebody else first",
        )
