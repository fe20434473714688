"""API of sessions, users, grants and keys."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from reenact.server.auth.authentication import check_site, clear_cookie, set_cookie
from reenact.server.auth.sign_in import sign_in, sign_out
from reenact.server.context import RequestContext
from reenact.server.endpoint import PAGED, answer, api
from reenact.server.pagination import ListResponse
from reenact.server.people import accounts, keys, users
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
    UserRequest,
    UserView,
)

__all__ = ["ENDPOINTS"]


async def _set_up(context: RequestContext) -> Response:
    sent = await context.json(SetupRequest)
    user = await accounts.set_up(
        context.server, context.request, sent.token, sent.email, sent.password
    )
    return answer(AcceptedInvite(id=user.id, email=user.email, tenant=user.tenant), 201)


async def _accept_invite(context: RequestContext) -> Response:
    sent = await context.json(InviteAcceptance)
    user = await accounts.accept_invite(context.server, context.request, sent.token, sent.password)
    return answer(AcceptedInvite(id=user.id, email=user.email, tenant=user.tenant), 201)


async def _open_session(context: RequestContext) -> Response:
    check_site(context.request)
    sent = await context.json(SignInRequest)
    found = await sign_in(context.server, context.request, sent.email, sent.password, sent.tenant)
    view = await accounts.describe_session(context.server, found.user, found.opened.csrf)
    response = answer(view, 201)
    set_cookie(context.request, response, found.opened.secret)
    return response


async def _show_session(context: RequestContext) -> SessionView:
    who = context.principal
    actor = ActorView(type=who.type, id=who.id, name=who.name)
    return SessionView.of(actor, who.tenant, who.grants, who.csrf)


async def _close_session(context: RequestContext) -> Response:
    await sign_out(context.server, context.request, context.principal)
    response = Response(status_code=204)
    clear_cookie(context.request, response)
    return response


async def _list_users(context: RequestContext) -> ListResponse[UserView]:
    return await users.list_users(context, context.query("cursor"), context.limit)


async def _invite_user(context: RequestContext) -> Response:
    wanted = await context.json(UserRequest)
    return answer(await users.invite_user(context, accounts.address_here(context), wanted), 201)


async def _invite_again(context: RequestContext) -> Response:
    address = accounts.address_here(context)
    return answer(await users.invite_again(context, address, context.path("id")), 201)


async def _remove_user(context: RequestContext) -> None:
    await users.remove_user(context, context.path("id"))


async def _add_grant(context: RequestContext) -> Response:
    wanted = await context.json(GrantRequest)
    return answer(await users.add_grant(context, context.path("id"), wanted), 201)


async def _remove_grant(context: RequestContext) -> None:
    await users.remove_grant(context, context.path("id"), context.path("grant"))


async def _list_keys(context: RequestContext) -> ListResponse[KeyView]:
    return await keys.list_keys(context, context.query("cursor"), context.limit)


async def _add_key(context: RequestContext) -> Response:
    return answer(await keys.add_key(context, await context.json(KeyRequest)), 201)


async def _add_own_key(context: RequestContext) -> Response:
    keys.check_session(context)  # before the body is read
    return answer(await keys.add_own_key(context, await context.json(OwnKeyRequest)), 201)


async def _revoke_own_key(context: RequestContext) -> None:
    await keys.revoke_own_key(context)


async def _revoke_key(context: RequestContext) -> None:
    await keys.revoke_key(context, context.path("id"))


ENDPOINTS: Final = (
    api(
        "POST",
        "/api/v1/setup",
        "open",
        _set_up,
        "Create the first account",
        takes=SetupRequest,
        answers=AcceptedInvite,
        status=(201,),
        codes=("setup_done",),
    ),
    api(
        "POST",
        "/api/v1/invite",
        "open",
        _accept_invite,
        "Accept an invitation",
        takes=InviteAcceptance,
        answers=AcceptedInvite,
        status=(201,),
        codes=("gone",),
    ),
    api(
        "POST",
        "/api/v1/session",
        "open",
        _open_session,
        "Sign in",
        takes=SignInRequest,
        answers=SessionView,
        status=(201,),
        codes=("credentials_wrong", "csrf_failed", "rate_limited"),
    ),
    api("GET", "/api/v1/session", "known", _show_session, "Who one is", answers=SessionView),
    api(
        "DELETE",
        "/api/v1/session",
        "known",
        _close_session,
        "Sign out",
        status=(204,),
        codes=("invalid",),
    ),
    api("GET", "/api/v1/users", "tenant:admin", _list_users, "Users", query=PAGED, lists=UserView),
    api(
        "POST",
        "/api/v1/users",
        "tenant:admin",
        _invite_user,
        "Invite a user",
        takes=UserRequest,
        answers=Invitation,
        status=(201,),
        codes=("conflict",),
    ),
    api(
        "DELETE",
        "/api/v1/users/{id}",
        "tenant:admin",
        _remove_user,
        "Remove a user",
        status=(204,),
        codes=("conflict",),
    ),
    api(
        "POST",
        "/api/v1/users/{id}/invite",
        "tenant:admin",
        _invite_again,
        "Create a password link",
        answers=Invitation,
        status=(201,),
    ),
    api(
        "POST",
        "/api/v1/users/{id}/grants",
        "tenant:admin",
        _add_grant,
        "Grant a role",
        takes=GrantRequest,
        answers=GrantView,
        status=(201,),
    ),
    api(
        "DELETE",
        "/api/v1/users/{id}/grants/{grant}",
        "tenant:admin",
        _remove_grant,
        "Revoke a grant",
        status=(204,),
        codes=("conflict",),
    ),
    api("GET", "/api/v1/keys", "tenant:admin", _list_keys, "Keys", query=PAGED, lists=KeyView),
    api(
        "POST",
        "/api/v1/keys",
        "tenant:admin",
        _add_key,
        "Create a key",
        takes=KeyRequest,
        answers=NewKey,
        status=(201,),
    ),
    api(
        "POST",
        "/api/v1/keys/own",
        "known",
        _add_own_key,
        "Create a key for the current user",
        takes=OwnKeyRequest,
        answers=NewKey,
        status=(201,),
    ),
    api(
        "DELETE",
        "/api/v1/keys/own",
        "known",
        _revoke_own_key,
        "Revoke the key of this request",
        status=(204,),
        codes=("not_found", "invalid"),
    ),
    api("DELETE", "/api/v1/keys/{id}", "tenant:admin", _revoke_key, "Revoke a key", status=(204,)),
)
