"""Users and their grants: list, invite, remove, grant, revoke."""

from __future__ import annotations

from typing import Final

from reenact.server.auth.permissions import GRANTABLE, ROLES, Grant, is_grantable, permissions_of
from reenact.server.context import Caller
from reenact.server.pagination import ListResponse, list_response
from reenact.server.people import accounts
from reenact.server.people.schema import (
    GrantRequest,
    GrantView,
    Invitation,
    UserRequest,
    UserView,
)
from reenact.server.problems import Problem
from reenact.server.storage import people
from reenact.server.storage.database import Scope
from reenact.server.storage.people import User

__all__ = [
    "LONGEST",
    "add_grant",
    "check_future",
    "invite_again",
    "invite_user",
    "list_users",
    "new_grant",
    "remove_grant",
    "remove_user",
]

LONGEST: Final = 200
"""Characters of a name."""
_OF_THE_PLATFORM: Final = frozenset({"platform:admin", "metrics:read"})
"""Permissions that reach beyond one tenant."""


async def list_users(caller: Caller, before: str, limit: int) -> ListResponse[UserView]:
    """Return the active users with their grants, newest first. ``before`` is the cursor."""
    caller.require("tenant:admin")
    async with caller.server.database.reading(caller.tenant) as scope:
        found = await people.users(scope, before, limit + 1)
        grants = await people.grants_of_all(scope, "user", [user.id for user in found])
    return list_response(
        found, limit, lambda user: UserView.of(user, grants[user.id]), lambda user: user.id
    )


async def invite_user(caller: Caller, address: str, wanted: UserRequest) -> Invitation:
    """Create a user with all requested grants, and return the one-time link.

    ``address`` is the address of this server for links. Raises :class:`Problem`.
    """
    caller.require("tenant:admin")
    grants = [new_grant(caller, one) for one in wanted.grants]
    async with caller.server.database.writing(caller.tenant) as scope:
        invited = await accounts.invite(caller.server, scope, address, wanted.email)
        await caller.record(scope, "user.created", "user", invited.id, "tenant:admin")
        for grant in grants:
            await _add_grant(caller, scope, invited.id, grant)
    return invited


async def invite_again(caller: Caller, address: str, user_id: str) -> Invitation:
    """Return a new one-time link for a user. Their password and sessions end."""
    caller.require("tenant:admin")
    async with caller.server.database.writing(caller.tenant) as scope:
        user = await _managed_user(caller, scope, user_id)
        invited = await accounts.invite(caller.server, scope, address, user.email, user)
        await caller.record(scope, "user.changed", "user", user.id, "tenant:admin", what="invite")
    return invited


async def remove_user(caller: Caller, user_id: str) -> None:
    """Remove a user with their grants, sessions and keys.

    Raises :class:`Problem` ``conflict`` if no administrator would be left.
    """
    caller.require("tenant:admin")
    async with caller.server.database.writing(caller.tenant) as scope:
        user = await _managed_user(caller, scope, user_id)
        was_admin = user.id in await people.users_with(scope, "tenant:admin")
        await people.remove_user(scope, user.id, caller.server.now())
        if was_admin:
            await _check_keeps_an_admin(scope)
        await caller.record(scope, "user.removed", "user", user.id, "tenant:admin")


async def add_grant(caller: Caller, user_id: str, wanted: GrantRequest) -> GrantView:
    """Grant a role or permission to a user. Raises :class:`Problem`."""
    caller.require("tenant:admin")
    grant = new_grant(caller, wanted)
    async with caller.server.database.writing(caller.tenant) as scope:
        user = await _user(scope, user_id)
        await _add_grant(caller, scope, user.id, grant)
    return GrantView.of(grant)


async def remove_grant(caller: Caller, user_id: str, grant_id: str) -> None:
    """Revoke a grant of a user.

    Raises :class:`Problem` ``conflict`` if no administrator would be left.
    """
    caller.require("tenant:admin")
    async with caller.server.database.writing(caller.tenant) as scope:
        user = await _managed_user(caller, scope, user_id)
        was_admin = user.id in await people.users_with(scope, "tenant:admin")
        what = await people.remove_grant(scope, user.id, grant_id)
        if what is None:
            raise Problem("not_found", "there is no such grant")
        if was_admin:
            await _check_keeps_an_admin(scope)
        await caller.record(
            scope, "role.revoked", "user", user.id, "tenant:admin", grant=grant_id, what=what
        )


def new_grant(caller: Caller, wanted: GrantRequest) -> Grant:
    """Return a new grant.

    Raises :class:`Problem`: platform roles require a platform administrator.
    """
    if not is_grantable(wanted.role):
        raise Problem(
            "invalid",
            f"unknown role or permission {wanted.role[:LONGEST]!r}",
            hint=f"roles: {', '.join(ROLES)}; permissions: {', '.join(GRANTABLE)}",
            field="role",
        )
    for name in ("environment", "app"):
        if len(getattr(wanted, name)) > LONGEST:
            raise Problem("invalid", f"{name} is too long", field=name)
    check_future(caller, wanted.expires_at)
    if permissions_of(wanted.role) & _OF_THE_PLATFORM:
        caller.require("platform:admin")
    return Grant(
        wanted.role, wanted.environment, wanted.app, wanted.expires_at, caller.server.new_id("grt")
    )


def check_future(caller: Caller, expires_at: int) -> None:
    """Raise :class:`Problem` if ``expires_at`` is in the past; 0 means never."""
    if expires_at < 0 or (expires_at and expires_at <= caller.server.now()):
        raise Problem("invalid", "expiresAt is in the past", field="expiresAt")


async def _add_grant(caller: Caller, scope: Scope, user_id: str, grant: Grant) -> None:
    """Store a grant and its audit record."""
    now, by = caller.server.now(), caller.principal.id
    await people.add_grant(scope, "user", user_id, grant, now, by)
    await caller.record(
        scope,
        "role.granted",
        "user",
        user_id,
        "tenant:admin",
        grant=grant.id,
        what=grant.what,
        environment=grant.environment,
        app=grant.app,
        expiresAt=str(grant.expires_at or ""),
    )


async def _user(scope: Scope, user_id: str) -> User:
    user = await people.find_user(scope, id=user_id)
    if user is None:
        raise Problem("not_found", "there is no such user")
    return user


async def _managed_user(caller: Caller, scope: Scope, user_id: str) -> User:
    """Return a user whose account the caller is allowed to change.

    Raises :class:`Problem` if the user is a platform administrator and the caller is not: a new
    password link would let the caller take over the account.
    """
    user = await _user(scope, user_id)
    grants = await people.grants_of(scope, "user", user.id)
    if any("platform:admin" in permissions_of(grant.what) for grant in grants):
        caller.require("platform:admin")
    return user


async def _check_keeps_an_admin(scope: Scope) -> None:
    """Raise :class:`Problem` if no user would be left who can grant permissions."""
    if not await people.users_with(scope, "tenant:admin"):
        raise Problem(
            "conflict",
            "this would leave the tenant without an administrator",
            hint="grant the role tenant admin to another user first",
        )
