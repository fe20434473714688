"""Keys over HTTP."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.access import Grant
from reenact.server.answering import Listed, answer, listed
from reenact.server.asking import Ask
from reenact.server.changing import changed
from reenact.server.people.credentials import SECRET_SIZE, KeyKind, hash_secret, key_text
from reenact.server.people.granting import check_future, grant_of
from reenact.server.people.shapes import KeyAsked, KeyMade, KeyShown, OwnKeyAsked, show_key
from reenact.server.problems import Problem
from reenact.server.routing import PAGED, Endpoint, Says
from reenact.server.storage import people_rows
from reenact.server.storage.people_rows import Key

__all__ = ["ENDPOINTS", "add_key", "list_keys", "revoke_key"]

_LONGEST: Final = 200


async def list_keys(ask: Ask) -> Listed:
    """``GET /api/v1/keys``: those that are not revoked, the newest first, with their grants."""
    ask.require("tenant:admin")
    async with ask.server.database.reading(ask.tenant) as scope:
        found = await people_rows.keys(scope, ask.query("cursor"), ask.limit)
        grants = await people_rows.grants_of_all(scope, "key", [key.id for key in found])
    items = [show_key(key, grants[key.id]) for key in found]
    return listed(items, ask.limit, items[-1].id if items else "")


async def add_key(ask: Ask) -> Response:
    """``POST /api/v1/keys``: 201 with the key itself, in this answer and never again."""
    ask.require("tenant:admin")
    asked = await ask.json(KeyAsked)
    _check(ask, asked)
    grants = tuple(grant_of(ask, one) for one in asked.grants)
    return await _make(ask, asked, grants, "tenant:admin")


async def add_own_key(ask: Ask) -> Response:
    if ask.principal.auth != "session":
        raise Problem(
            "permission_denied",
            "a key cannot make keys of its own",
            hint="sign in with your password",
            command="reenact login",
            permission="known",
        )
    own = await ask.json(OwnKeyAsked)
    asked = KeyAsked(kind="user", name=own.name, expires_at=own.expires_at)
    _check_name(asked.name)
    check_future(ask, asked.expires_at)
    return await _make(ask, asked, (), "known", owner=ask.principal.id)


async def revoke_key(ask: Ask) -> None:
    """``DELETE /api/v1/keys/{id}``: at once; 204, and 404 for no such key."""
    ask.require("tenant:admin")
    await _revoke(ask, ask.path("id"), "tenant:admin")


async def revoke_own_key(ask: Ask) -> None:
    if ask.principal.auth != "key":
        raise Problem("invalid", "this is a session, and no key", hint="DELETE /api/v1/session")
    await _revoke(ask, ask.principal.credential, "known")


async def _revoke(ask: Ask, key: str, permission: str) -> None:
    async with ask.server.database.writing(ask.tenant) as scope:
        if not await people_rows.revoke_key(scope, key, ask.server.now()):
            raise Problem("not_found", "there is no such key")
        record = changed(ask.principal, "key.revoked", "key", key, permission)
        await ask.server.auditor.write(scope, record)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= _LONGEST:
        raise Problem("invalid", f"a key has a name of at most {_LONGEST} letters", field="name")


def _check(ask: Ask, asked: KeyAsked) -> None:
    _check_name(asked.name)
    check_future(ask, asked.expires_at)
    for field in ("app", "environment"):
        value = getattr(asked, field)
        if len(value) > _LONGEST:
            raise Problem("invalid", f"{field} is too long", field=field)
        if asked.kind == "agent" and not value:
            raise Problem(
                "invalid", "the key of an agent is for one app and environment", field=field
            )
        if asked.kind == "user" and value:
            raise Problem(
                "invalid", f"{field} is for keys of agents; limit the grants", field=field
            )
    if (asked.kind == "user") != bool(asked.grants):
        raise Problem("invalid", "a user's key needs grants, an agent's has none", field="grants")


async def _make(
    ask: Ask, asked: KeyAsked, grants: tuple[Grant, ...], permission: str, owner: str = ""
) -> Response:
    server, now = ask.server, ask.server.now()
    secret, kind = server.secret(SECRET_SIZE).hex(), asked.kind
    key = _key(ask, asked, hash_secret(secret), owner)
    async with server.database.writing(ask.tenant) as scope:
        await people_rows.add_key(scope, key)
        for grant in grants:
            await people_rows.add_grant(scope, "key", key.id, grant, now, ask.principal.id)
        record = changed(
            ask.principal,
            "key.created",
            "key",
            key.id,
            permission,
            kind=kind,
            app=key.app,
            environment=key.environment,
            owner=owner,
            grants=", ".join(_words(grant) for grant in grants),
            expiresAt=str(key.expires_at or ""),
        )
        await server.auditor.write(scope, record)
    return answer(_show(key, kind, secret), 201)


def _key(ask: Ask, asked: KeyAsked, kept: str, owner: str) -> Key:
    return Key(
        tenant=ask.tenant,
        id=ask.server.new_id("key"),
        kind=asked.kind,
        name=asked.name,
        hash=kept,
        app=asked.app,
        environment=asked.environment,
        owner=owner,
        created_at=ask.server.now(),
        expires_at=asked.expires_at,
    )


def _show(key: Key, kind: KeyKind, secret: str) -> KeyMade:
    return KeyMade(
        id=key.id,
        kind=key.kind,
        name=key.name,
        app=key.app,
        environment=key.environment,
        expires_at=key.expires_at,
        key=key_text(kind, key.id, secret),
    )


def _words(grant: Grant) -> str:
    return " in ".join(filter(None, (grant.what, grant.environment, grant.app)))


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/keys",
        "tenant:admin",
        list_keys,
        says=Says("Keys", query=PAGED, lists=KeyShown),
    ),
    Endpoint(
        "POST",
        "/api/v1/keys",
        "tenant:admin",
        add_key,
        says=Says("Make a key", takes=KeyAsked, answers=KeyMade, status=(201,)),
    ),
    Endpoint(
        "POST",
        "/api/v1/keys/own",
        "known",
        add_own_key,
        says=Says("A key of one's own", takes=OwnKeyAsked, answers=KeyMade, status=(201,)),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/keys/own",
        "known",
        revoke_own_key,
        says=Says("Revoke the key that asks", status=(204,), codes=("not_found", "invalid")),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/keys/{id}",
        "tenant:admin",
        revoke_key,
        says=Says("Revoke a key", status=(204,)),
    ),
)
