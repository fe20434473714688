"""API of sessions, users, grants and keys."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.audit.log import changed
from reenact.server.auth.authentication import check_site, clear_cookie, set_cookie
from reenact.server.auth.credentials import SECRET_SIZE, KeyKind, hash_secret, key_text
from reenact.server.auth.permissions import Grant
from reenact.server.auth.sign_in import sign_in, sign_out
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, ApiDescription, Endpoint
from reenact.server.people import accounts
from reenact.server.people.grants import (
    check_future,
    check_keeps_an_admin,
    check_may_manage,
    grant_of,
)
from reenact.server.people.schema import (
    AcceptedInvite,
    ActorView,
    GrantRequest,
    GrantView,
    Invitation,
    InviteAcceptance,
    KeyRequest,
    KeyView,
    NewKey,
    OwnKeyRequest,
    SessionView,
    SetupRequest,
    SignInRequest,
    TenantName,
    UserRequest,
    UserView,
    show_grant,
    show_key,
    show_user,
)
from reenact.server.problems import Problem
from reenact.server.responses import ListResponse, answer, listed
from reenact.server.runtime import Principal
from reenact.server.storage import people, platform
from reenact.server.storage.database import Scope
from reenact.server.storage.people import Key, User

__all__ = [
    "ENDPOINTS",
    "add_grant",
    "add_key",
    "add_user",
    "invite_again",
    "list_keys",
    "list_users",
    "remove_grant",
    "remove_user",
    "revoke_key",
]


async def set_up(context: RequestContext) -> Response:
    asked = await context.json(SetupRequest)
    user = await accounts.set_up(
        context.server, context.request, asked.token, asked.email, asked.password
    )
    return answer(AcceptedInvite(id=user.id, email=user.email, tenant=user.tenant), 201)


async def accept_invite(context: RequestContext) -> Response:
    asked = await context.json(InviteAcceptance)
    user = await accounts.accept_invite(
        context.server, context.request, asked.token, asked.password
    )
    return answer(AcceptedInvite(id=user.id, email=user.email, tenant=user.tenant), 201)


async def open_session(context: RequestContext) -> Response:
    check_site(context.request)
    asked = await context.json(SignInRequest)
    found = await sign_in(
        context.server, context.request, asked.email, asked.password, asked.tenant
    )
    user = found.user
    async with context.server.database.platform() as transaction:
        tenant = await platform.tenant_by_id(transaction, user.tenant)
        grants = await people.grants_of(transaction.scope(user.tenant), "user", user.id)
    if tenant is None:
        raise Problem("not_found", "this tenant is gone")
    shown = SessionView(
        actor=ActorView(type="user", id=user.id, name=user.email),
        tenant=TenantName(id=tenant.id, name=tenant.name),
        tier=tenant.tier,
        grants=list(map(show_grant, grants)),
        csrf_token=found.opened.csrf,
    )
    response = answer(shown, 201)
    set_cookie(context.request, response, found.opened.secret)
    return response


async def show_session(context: RequestContext) -> SessionView:
    return _show(context.principal)


def _show(principal: Principal) -> SessionView:
    return SessionView(
        actor=ActorView(type=principal.type, id=principal.id, name=principal.name),
        tenant=TenantName(id=principal.tenant.id, name=principal.tenant.name),
        tier=principal.tenant.tier,
        grants=list(map(show_grant, principal.grants)),
        csrf_token=principal.csrf,
    )


async def close_session(context: RequestContext) -> Response:
    await sign_out(context.server, context.request, context.principal)
    response = Response(status_code=204)
    clear_cookie(context.request, response)
    return response


async def list_users(context: RequestContext) -> ListResponse[UserView]:
    """``GET /api/v1/users``: active users with their grants, newest first."""
    context.require("tenant:admin")
    async with context.server.database.reading(context.tenant) as scope:
        found = await people.users(scope, context.query("cursor"), context.limit)
        grants = await people.grants_of_all(scope, "user", [user.id for user in found])
    items = [show_user(user, grants[user.id]) for user in found]
    return listed(items, context.limit, items[-1].id if items else "")


async def add_user(context: RequestContext) -> Response:
    """``POST /api/v1/users``: 201 with the one-time link. Raises :class:`Problem`."""
    context.require("tenant:admin")
    asked = await context.json(UserRequest)
    grants = [grant_of(context, one) for one in asked.grants]
    async with context.server.database.writing(context.tenant) as scope:
        invited = await accounts.invite(context.server, scope, context.request, asked.email)
        record = changed(context.principal, "user.created", "user", invited.id, "tenant:admin")
        await context.server.auditor.write(scope, record)
        for grant in grants:
            await _add_grant(context, scope, invited.id, grant)
    return answer(invited, 201)


async def invite_again(context: RequestContext) -> Response:
    """``POST /api/v1/users/{id}/invite``: 201 with another link; password and sessions end."""
    context.require("tenant:admin")
    async with context.server.database.writing(context.tenant) as scope:
        user = await _user(context, scope)
        await check_may_manage(context, scope, user.id)
        invited = await accounts.invite(context.server, scope, context.request, user.email, user)
        record = changed(
            context.principal, "user.changed", "user", user.id, "tenant:admin", what="invite"
        )
        await context.server.auditor.write(scope, record)
    return answer(invited, 201)


async def remove_user(context: RequestContext) -> None:
    """``DELETE /api/v1/users/{id}``: 204; 409 if no administrator would be left."""
    context.require("tenant:admin")
    async with context.server.database.writing(context.tenant) as scope:
        user = await _user(context, scope)
        await check_may_manage(context, scope, user.id)
        admin = user.id in await people.users_with(scope, "tenant:admin")
        await people.remove_user(scope, user.id, context.server.now())
        if admin:
            await check_keeps_an_admin(scope)
        record = changed(context.principal, "user.removed", "user", user.id, "tenant:admin")
        await context.server.auditor.write(scope, record)


async def add_grant(context: RequestContext) -> Response:
    """``POST /api/v1/users/{id}/grants``: 201 with the grant; 404 for no such user."""
    context.require("tenant:admin")
    grant = grant_of(context, await context.json(GrantRequest))
    async with context.server.database.writing(context.tenant) as scope:
        user = await _user(context, scope)
        await _add_grant(context, scope, user.id, grant)
    return answer(show_grant(grant), 201)


async def _add_grant(context: RequestContext, scope: Scope, user: str, grant: Grant) -> None:
    """Store a grant and its audit record."""
    now, by = context.server.now(), context.principal.id
    await people.add_grant(scope, "user", user, grant, now, by)
    record = changed(
        context.principal,
        "role.granted",
        "user",
        user,
        "tenant:admin",
        grant=grant.id,
        what=grant.what,
        environment=grant.environment,
        app=grant.app,
        expiresAt=str(grant.expires_at or ""),
    )
    await context.server.auditor.write(scope, record)


async def remove_grant(context: RequestContext) -> None:
    """``DELETE /api/v1/users/{id}/grants/{grant}``: 204; 409 if no administrator would be left."""
    context.require("tenant:admin")
    grant = context.path("grant")
    async with context.server.database.writing(context.tenant) as scope:
        user = await _user(context, scope)
        await check_may_manage(context, scope, user.id)
        admin = user.id in await people.users_with(scope, "tenant:admin")
        what = await people.remove_grant(scope, user.id, grant)
        if what is None:
            raise Problem("not_found", "there is no such grant")
        if admin:
            await check_keeps_an_admin(scope)
        record = changed(
            context.principal,
            "role.revoked",
            "user",
            user.id,
            "tenant:admin",
            grant=grant,
            what=what,
        )
        await context.server.auditor.write(scope, record)


async def _user(context: RequestContext, scope: Scope) -> User:
    user = await people.find_user(scope, id=context.path("id"))
    if user is None:
        raise Problem("not_found", "there is no such user")
    return user


_LONGEST: Final = 200


async def list_keys(context: RequestContext) -> ListResponse[KeyView]:
    """``GET /api/v1/keys``: unrevoked keys with their grants, newest first."""
    context.require("tenant:admin")
    async with context.server.database.reading(context.tenant) as scope:
        found = await people.keys(scope, context.query("cursor"), context.limit)
        grants = await people.grants_of_all(scope, "key", [key.id for key in found])
    items = [show_key(key, grants[key.id]) for key in found]
    return listed(items, context.limit, items[-1].id if items else "")


async def add_key(context: RequestContext) -> Response:
    """``POST /api/v1/keys``: 201 with the key itself, in this answer and never again."""
    context.require("tenant:admin")
    asked = await context.json(KeyRequest)
    _check(context, asked)
    grants = tuple(grant_of(context, one) for one in asked.grants)
    return await _make(context, asked, grants, "tenant:admin")


async def add_own_key(context: RequestContext) -> Response:
    if context.principal.auth != "session":
        raise Problem(
            "permission_denied",
            "a key cannot make keys of its own",
            hint="sign in with your password",
            command="reenact login",
            permission="known",
        )
    own = await context.json(OwnKeyRequest)
    asked = KeyRequest(kind="user", name=own.name, expires_at=own.expires_at)
    _check_name(asked.name)
    check_future(context, asked.expires_at)
    return await _make(context, asked, (), "known", owner=context.principal.id)


async def revoke_key(context: RequestContext) -> None:
    """``DELETE /api/v1/keys/{id}``: at once; 204, and 404 for no such key."""
    context.require("tenant:admin")
    await _revoke(context, context.path("id"), "tenant:admin")


async def revoke_own_key(context: RequestContext) -> None:
    if context.principal.auth != "key":
        raise Problem("invalid", "this is a session, and no key", hint="DELETE /api/v1/session")
    await _revoke(context, context.principal.credential, "known")


async def _revoke(context: RequestContext, key: str, permission: str) -> None:
    async with context.server.database.writing(context.tenant) as scope:
        if not await people.revoke_key(scope, key, context.server.now()):
            raise Problem("not_found", "there is no such key")
        record = changed(context.principal, "key.revoked", "key", key, permission)
        await context.server.auditor.write(scope, record)


def _check_name(name: str) -> None:
    if not 0 < len(name) <= _LONGEST:
        raise Problem("invalid", f"a key has a name of at most {_LONGEST} letters", field="name")


def _check(context: RequestContext, asked: KeyRequest) -> None:
    _check_name(asked.name)
    check_future(context, asked.expires_at)
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
    context: RequestContext,
    asked: KeyRequest,
    grants: tuple[Grant, ...],
    permission: str,
    owner: str = "",
) -> Response:
    server, now = context.server, context.server.now()
    secret, kind = server.secret(SECRET_SIZE).hex(), asked.kind
    key = _key(context, asked, hash_secret(secret), owner)
    async with server.database.writing(context.tenant) as scope:
        await people.add_key(scope, key)
        for grant in grants:
            await people.add_grant(scope, "key", key.id, grant, now, context.principal.id)
        record = changed(
            context.principal,
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
    return answer(_show_new_key(key, kind, secret), 201)


def _key(context: RequestContext, asked: KeyRequest, kept: str, owner: str) -> Key:
    return Key(
        tenant=context.tenant,
        id=context.server.new_id("key"),
        kind=asked.kind,
        name=asked.name,
        hash=kept,
        app=asked.app,
        environment=asked.environment,
        owner=owner,
        created_at=context.server.now(),
        expires_at=asked.expires_at,
    )


def _show_new_key(key: Key, kind: KeyKind, secret: str) -> NewKey:
    return NewKey(
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
        "POST",
        "/api/v1/setup",
        "open",
        set_up,
        says=ApiDescription(
            "The first account, once",
            takes=SetupRequest,
            answers=AcceptedInvite,
            status=(201,),
            codes=("setup_done",),
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/invite",
        "open",
        accept_invite,
        says=ApiDescription(
            "Follow an invitation",
            takes=InviteAcceptance,
            answers=AcceptedInvite,
            status=(201,),
            codes=("gone",),
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/session",
        "open",
        open_session,
        says=ApiDescription(
            "Sign in",
            takes=SignInRequest,
            answers=SessionView,
            status=(201,),
            codes=("credentials_wrong", "csrf_failed", "rate_limited"),
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/session",
        "known",
        show_session,
        says=ApiDescription("Who one is", answers=SessionView),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/session",
        "known",
        close_session,
        says=ApiDescription("Sign out", status=(204,), codes=("invalid",)),
    ),
    Endpoint(
        "GET",
        "/api/v1/users",
        "tenant:admin",
        list_users,
        says=ApiDescription("Users", query=PAGED, lists=UserView),
    ),
    Endpoint(
        "POST",
        "/api/v1/users",
        "tenant:admin",
        add_user,
        says=ApiDescription(
            "Invite somebody",
            takes=UserRequest,
            answers=Invitation,
            status=(201,),
            codes=("conflict",),
        ),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/users/{id}",
        "tenant:admin",
        remove_user,
        says=ApiDescription("Remove a user", status=(204,), codes=("conflict",)),
    ),
    Endpoint(
        "POST",
        "/api/v1/users/{id}/invite",
        "tenant:admin",
        invite_again,
        says=ApiDescription("Another link for the password", answers=Invitation, status=(201,)),
    ),
    Endpoint(
        "POST",
        "/api/v1/users/{id}/grants",
        "tenant:admin",
        add_grant,
        says=ApiDescription(
            "Grant something", takes=GrantRequest, answers=GrantView, status=(201,)
        ),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/users/{id}/grants/{grant}",
        "tenant:admin",
        remove_grant,
        says=ApiDescription("Take it back", status=(204,), codes=("conflict",)),
    ),
    Endpoint(
        "GET",
        "/api/v1/keys",
        "tenant:admin",
        list_keys,
        says=ApiDescription("Keys", query=PAGED, lists=KeyView),
    ),
    Endpoint(
        "POST",
        "/api/v1/keys",
        "tenant:admin",
        add_key,
        says=ApiDescription("Make a key", takes=KeyRequest, answers=NewKey, status=(201,)),
    ),
    Endpoint(
        "POST",
        "/api/v1/keys/own",
        "known",
        add_own_key,
        says=ApiDescription(
            "A key of one's own", takes=OwnKeyRequest, answers=NewKey, status=(201,)
        ),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/keys/own",
        "known",
        revoke_own_key,
        says=ApiDescription(
            "Revoke the key that asks", status=(204,), codes=("not_found", "invalid")
        ),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/keys/{id}",
        "tenant:admin",
        revoke_key,
        says=ApiDescription("Revoke a key", status=(204,)),
    ),
)
