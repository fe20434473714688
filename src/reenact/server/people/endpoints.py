"""Sessions, users and their grants over HTTP."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.access import Grant
from reenact.server.answering import Listed, answer, listed
from reenact.server.asking import Ask
from reenact.server.changing import changed
from reenact.server.people import accounts, keys
from reenact.server.people.csrf import check_site
from reenact.server.people.granting import check_keeps_an_admin, check_may_manage, grant_of
from reenact.server.people.sessions import clear_cookie, set_cookie
from reenact.server.people.shapes import (
    GrantAsked,
    GrantShown,
    Invited,
    InviteTaken,
    InviteUsed,
    SessionShown,
    SetupAsked,
    SignInAsked,
    UserAsked,
    UserShown,
    WhereShown,
    WhoShown,
    show_grant,
    show_user,
)
from reenact.server.people.signing_in import sign_in, sign_out
from reenact.server.ports import Principal
from reenact.server.problems import Problem
from reenact.server.routing import PAGED, Endpoint, Says
from reenact.server.storage import people_rows, platform
from reenact.server.storage.database import Scope
from reenact.server.storage.people_rows import User

__all__ = [
    "ENDPOINTS",
    "add_grant",
    "add_user",
    "invite_again",
    "list_users",
    "remove_grant",
    "remove_user",
]


async def set_up(ask: Ask) -> Response:
    asked = await ask.json(SetupAsked)
    user = await accounts.set_up(ask.server, ask.request, asked.token, asked.email, asked.password)
    return answer(InviteUsed(id=user.id, email=user.email, tenant=user.tenant), 201)


async def accept_invite(ask: Ask) -> Response:
    asked = await ask.json(InviteTaken)
    user = await accounts.accept_invite(ask.server, ask.request, asked.token, asked.password)
    return answer(InviteUsed(id=user.id, email=user.email, tenant=user.tenant), 201)


async def open_session(ask: Ask) -> Response:
    check_site(ask.request)
    asked = await ask.json(SignInAsked)
    found = await sign_in(ask.server, ask.request, asked.email, asked.password, asked.tenant)
    user = found.user
    async with ask.server.database.platform() as transaction:
        tenant = await platform.tenant_by_id(transaction, user.tenant)
        grants = await people_rows.grants_of(transaction.scope(user.tenant), "user", user.id)
    if tenant is None:
        raise Problem("not_found", "this tenant is gone")
    shown = SessionShown(
        actor=WhoShown(type="user", id=user.id, name=user.email),
        tenant=WhereShown(id=tenant.id, name=tenant.name),
        tier=tenant.tier,
        grants=list(map(show_grant, grants)),
        csrf_token=found.opened.csrf,
    )
    response = answer(shown, 201)
    set_cookie(ask.request, response, found.opened.secret)
    return response


async def show_session(ask: Ask) -> SessionShown:
    return _show(ask.principal)


def _show(principal: Principal) -> SessionShown:
    return SessionShown(
        actor=WhoShown(type=principal.type, id=principal.id, name=principal.name),
        tenant=WhereShown(id=principal.tenant.id, name=principal.tenant.name),
        tier=principal.tenant.tier,
        grants=list(map(show_grant, principal.grants)),
        csrf_token=principal.csrf,
    )


async def close_session(ask: Ask) -> Response:
    await sign_out(ask.server, ask.request, ask.principal)
    response = Response(status_code=204)
    clear_cookie(ask.request, response)
    return response


async def list_users(ask: Ask) -> Listed:
    """``GET /api/v1/users``: those who are there, the newest first, with their grants."""
    ask.require("tenant:admin")
    async with ask.server.database.reading(ask.tenant) as scope:
        found = await people_rows.users(scope, ask.query("cursor"), ask.limit)
        grants = await people_rows.grants_of_all(scope, "user", [user.id for user in found])
    items = [show_user(user, grants[user.id]) for user in found]
    return listed(items, ask.limit, items[-1].id if items else "")


async def add_user(ask: Ask) -> Response:
    """``POST /api/v1/users``: 201 with the one-time link. Raises :class:`Problem`."""
    ask.require("tenant:admin")
    asked = await ask.json(UserAsked)
    grants = [grant_of(ask, one) for one in asked.grants]
    async with ask.server.database.writing(ask.tenant) as scope:
        invited = await accounts.invite(ask.server, scope, ask.request, asked.email)
        record = changed(ask.principal, "user.created", "user", invited.id, "tenant:admin")
        await ask.server.auditor.write(scope, record)
        for grant in grants:
            await _add_grant(ask, scope, invited.id, grant)
    return answer(invited, 201)


async def invite_again(ask: Ask) -> Response:
    """``POST /api/v1/users/{id}/invite``: 201 with another link; password and sessions end."""
    ask.require("tenant:admin")
    async with ask.server.database.writing(ask.tenant) as scope:
        user = await _user(ask, scope)
        await check_may_manage(ask, scope, user.id)
        invited = await accounts.invite(ask.server, scope, ask.request, user.email, user)
        record = changed(
            ask.principal, "user.changed", "user", user.id, "tenant:admin", what="invite"
        )
        await ask.server.auditor.write(scope, record)
    return answer(invited, 201)


async def remove_user(ask: Ask) -> None:
    """``DELETE /api/v1/users/{id}``: 204; 409 if no administrator would be left."""
    ask.require("tenant:admin")
    async with ask.server.database.writing(ask.tenant) as scope:
        user = await _user(ask, scope)
        await check_may_manage(ask, scope, user.id)
        admin = user.id in await people_rows.users_with(scope, "tenant:admin")
        await people_rows.remove_user(scope, user.id, ask.server.now())
        if admin:
            await check_keeps_an_admin(scope)
        record = changed(ask.principal, "user.removed", "user", user.id, "tenant:admin")
        await ask.server.auditor.write(scope, record)


async def add_grant(ask: Ask) -> Response:
    """``POST /api/v1/users/{id}/grants``: 201 with the grant; 404 for no such user."""
    ask.require("tenant:admin")
    grant = grant_of(ask, await ask.json(GrantAsked))
    async with ask.server.database.writing(ask.tenant) as scope:
        user = await _user(ask, scope)
        await _add_grant(ask, scope, user.id, grant)
    return answer(show_grant(grant), 201)


async def _add_grant(ask: Ask, scope: Scope, user: str, grant: Grant) -> None:
    """Store a grant and its audit record."""
    now, by = ask.server.now(), ask.principal.id
    await people_rows.add_grant(scope, "user", user, grant, now, by)
    record = changed(
        ask.principal,
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
    await ask.server.auditor.write(scope, record)


async def remove_grant(ask: Ask) -> None:
    """``DELETE /api/v1/users/{id}/grants/{grant}``: 204; 409 if no administrator would be left."""
    ask.require("tenant:admin")
    grant = ask.path("grant")
    async with ask.server.database.writing(ask.tenant) as scope:
        user = await _user(ask, scope)
        await check_may_manage(ask, scope, user.id)
        admin = user.id in await people_rows.users_with(scope, "tenant:admin")
        what = await people_rows.remove_grant(scope, user.id, grant)
        if what is None:
            raise Problem("not_found", "there is no such grant")
        if admin:
            await check_keeps_an_admin(scope)
        record = changed(
            ask.principal, "role.revoked", "user", user.id, "tenant:admin", grant=grant, what=what
        )
        await ask.server.auditor.write(scope, record)


async def _user(ask: Ask, scope: Scope) -> User:
    user = await people_rows.find_user(scope, id=ask.path("id"))
    if user is None:
        raise Problem("not_found", "there is no such user")
    return user


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/api/v1/setup",
        "open",
        set_up,
        says=Says(
            "The first account, once",
            takes=SetupAsked,
            answers=InviteUsed,
            status=(201,),
            codes=("setup_done",),
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/invite",
        "open",
        accept_invite,
        says=Says(
            "Follow an invitation",
            takes=InviteTaken,
            answers=InviteUsed,
            status=(201,),
            codes=("gone",),
        ),
    ),
    Endpoint(
        "POST",
        "/api/v1/session",
        "open",
        open_session,
        says=Says(
            "Sign in",
            takes=SignInAsked,
            answers=SessionShown,
            status=(201,),
            codes=("credentials_wrong", "csrf_failed", "rate_limited"),
        ),
    ),
    Endpoint(
        "GET",
        "/api/v1/session",
        "known",
        show_session,
        says=Says("Who one is", answers=SessionShown),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/session",
        "known",
        close_session,
        says=Says("Sign out", status=(204,), codes=("invalid",)),
    ),
    Endpoint(
        "GET",
        "/api/v1/users",
        "tenant:admin",
        list_users,
        says=Says("Users", query=PAGED, lists=UserShown),
    ),
    Endpoint(
        "POST",
        "/api/v1/users",
        "tenant:admin",
        add_user,
        says=Says(
            "Invite somebody", takes=UserAsked, answers=Invited, status=(201,), codes=("conflict",)
        ),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/users/{id}",
        "tenant:admin",
        remove_user,
        says=Says("Remove a user", status=(204,), codes=("conflict",)),
    ),
    Endpoint(
        "POST",
        "/api/v1/users/{id}/invite",
        "tenant:admin",
        invite_again,
        says=Says("Another link for the password", answers=Invited, status=(201,)),
    ),
    Endpoint(
        "POST",
        "/api/v1/users/{id}/grants",
        "tenant:admin",
        add_grant,
        says=Says("Grant something", takes=GrantAsked, answers=GrantShown, status=(201,)),
    ),
    Endpoint(
        "DELETE",
        "/api/v1/users/{id}/grants/{grant}",
        "tenant:admin",
        remove_grant,
        says=Says("Take it back", status=(204,), codes=("conflict",)),
    ),
    *keys.ENDPOINTS,
)
