"""Keys of app agents, programs and users: list, create, revoke."""

from __future__ import annotations

from collections.abc import Iterable

from reenact.server.auth.credentials import SECRET_SIZE, hash_secret, key_text
from reenact.server.auth.permissions import Grant
from reenact.server.context import Caller
from reenact.server.pagination import ListResponse, list_response
from reenact.server.people.schema import KeyRequest, KeyView, NewKey, OwnKeyRequest
from reenact.server.people.users import LONGEST, check_future, new_grant
from reenact.server.problems import Problem
from reenact.server.storage import people
from reenact.server.storage.people import Key

__all__ = [
    "add_key",
    "add_own_key",
    "check_session",
    "list_keys",
    "owner_names",
    "revoke_key",
    "revoke_own_key",
]


async def list_keys(caller: Caller, before: str, limit: int) -> ListResponse[KeyView]:
    """Return the active keys with their grants, newest first. ``before`` is the cursor."""
    caller.require("tenant:admin")
    async with caller.server.database.reading(caller.tenant) as scope:
        found = await people.keys(scope, before, limit + 1)
        grants = await people.grants_of_all(scope, "key", [key.id for key in found])
    return list_response(
        found, limit, lambda key: KeyView.of(key, grants[key.id]), lambda key: key.id
    )


async def owner_names(caller: Caller, keys: Iterable[KeyView]) -> dict[str, str]:
    """Return the e-mail addresses of the owners of ``keys`` by id."""
    caller.require("tenant:admin")
    async with caller.server.database.reading(caller.tenant) as scope:
        return await people.names_of(scope, sorted({key.owner for key in keys} - {""}))


async def add_key(caller: Caller, wanted: KeyRequest) -> NewKey:
    """Create a key, and return it with its secret, which is never shown again."""
    caller.require("tenant:admin")
    _check(caller, wanted)
    grants = tuple(new_grant(caller, one) for one in wanted.grants)
    return await _add(caller, wanted, grants, "tenant:admin")


async def add_own_key(caller: Caller, wanted: OwnKeyRequest) -> NewKey:
    """Create a key with the permissions of the signed-in user. Raises :class:`Problem` for keys."""
    check_session(caller)
    key = KeyRequest(kind="user", name=wanted.name, expires_at=wanted.expires_at)
    _check_name(key.name)
    check_future(caller, key.expires_at)
    return await _add(caller, key, (), "known", owner=caller.principal.id)


def check_session(caller: Caller) -> None:
    """Raise :class:`Problem` for a caller with a key, who cannot create keys of their own."""
    if caller.principal.auth != "session":
        raise Problem(
            "permission_denied",
            "a key cannot create keys",
            hint="sign in with your password",
            command="reenact login",
            permission="known",
        )


async def revoke_key(caller: Caller, key_id: str) -> None:
    """Revoke a key immediately. Raises :class:`Problem` for an unknown key."""
    caller.require("tenant:admin")
    await _revoke(caller, key_id, "tenant:admin")


async def revoke_own_key(caller: Caller) -> None:
    """Revoke the key that authenticates the caller. Raises :class:`Problem` for sessions."""
    if caller.principal.auth != "key":
        raise Problem("invalid", "this is a session, and no key", hint="DELETE /api/v1/session")
    await _revoke(caller, caller.principal.credential, "known")


async def _revoke(caller: Caller, key_id: str, permission: str) -> None:
    async with caller.server.database.writing(caller.tenant) as scope:
        if not await people.revoke_key(scope, key_id, caller.server.now()):
            raise Problem("not_found", "there is no such key")
        await caller.record(scope, "key.revoked", "key", key_id, permission)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= LONGEST:
        raise Problem("invalid", f"a key has a name of at most {LONGEST} letters", field="name")


def _check(caller: Caller, wanted: KeyRequest) -> None:
    _check_name(wanted.name)
    check_future(caller, wanted.expires_at)
    for field in ("app", "environment"):
        value = getattr(wanted, field)
        if len(value) > LONGEST:
            raise Problem("invalid", f"{field} is too long", field=field)
        if wanted.kind == "agent" and not value:
            raise Problem(
                "invalid", "the key of an agent is for one app and environment", field=field
            )
        if wanted.kind == "user" and value:
            raise Problem(
                "invalid", f"{field} is for keys of agents; limit the grants", field=field
            )
    if (wanted.kind == "user") != bool(wanted.grants):
        raise Problem("invalid", "a user's key needs grants, an agent's has none", field="grants")


async def _add(
    caller: Caller, wanted: KeyRequest, grants: tuple[Grant, ...], permission: str, owner: str = ""
) -> NewKey:
    server, now = caller.server, caller.server.now()
    secret = server.secret(SECRET_SIZE).hex()
    key = Key(
        tenant=caller.tenant,
        id=server.new_id("key"),
        kind=wanted.kind,
        name=wanted.name,
        hash=hash_secret(secret),
        app=wanted.app,
        environment=wanted.environment,
        owner=owner,
        created_at=now,
        expires_at=wanted.expires_at,
    )
    async with server.database.writing(caller.tenant) as scope:
        await people.add_key(scope, key)
        for grant in grants:
            await people.add_grant(scope, "key", key.id, grant, now, caller.principal.id)
        await caller.record(
            scope,
            "key.created",
            "key",
            key.id,
            permission,
            kind=key.kind,
            app=key.app,
            environment=key.environment,
            owner=owner,
            grants=", ".join(_text(grant) for grant in grants),
            expiresAt=str(key.expires_at or ""),
        )
    return NewKey(
        id=key.id,
        kind=key.kind,
        name=key.name,
        app=key.app,
        environment=key.environment,
        expires_at=key.expires_at,
        key=key_text(wanted.kind, key.id, secret),
    )


def _text(grant: Grant) -> str:
    return " in ".join(filter(None, (grant.what, grant.environment, grant.app)))
