"""Accounts: the first one, invitations, passwords, e-mail addresses."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

import msgspec
from starlette.requests import Request

from reenact.audit.record import Actor, Record, Subject
from reenact.server.auth.authentication import address_of, agent_header_of, is_secure
from reenact.server.auth.credentials import SECRET_SIZE, check_new, fits, hash_secret
from reenact.server.auth.permissions import Grant
from reenact.server.context import RequestContext
from reenact.server.people.schema import ActorView, Invitation, SessionView
from reenact.server.problems import Problem
from reenact.server.runtime import Server
from reenact.server.storage import people, platform
from reenact.server.storage.database import Scope
from reenact.server.storage.people import User
from reenact.server.storage.setup import FIRST_TENANT

__all__ = [
    "FIRST_ROLES",
    "accept_invite",
    "address_here",
    "check_email",
    "describe_session",
    "invite",
    "is_invited",
    "is_set_up",
    "plain_email",
    "set_up",
]

FIRST_ROLES: Final = ("tenant admin", "platform admin", "replayer")
"""Roles of the first account. Replays in production must be granted explicitly."""


def address_here(context: RequestContext) -> str:
    """Return the address of this server for links, such as ``https://reenact.example``.

    It is the configured public address, otherwise the listening address. It is empty behind a proxy
    with TLS without configuration, because the ``Host`` header can be forged.
    """
    if context.server.public_url:
        return context.server.public_url
    bound = context.request.scope.get("server")
    if is_secure(context.request) or bound is None or not bound[1]:
        return ""
    host, port = bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def describe_session(server: Server, user: User, csrf_token: str) -> SessionView:
    """Return the new session of ``user``. Raises :class:`Problem` if the tenant was deleted."""
    async with server.database.platform() as transaction:
        tenant = await platform.tenant_by_id(transaction, user.tenant)
        grants = await people.grants_of(transaction.scope(user.tenant), "user", user.id)
    if tenant is None:
        raise Problem("not_found", "this tenant was deleted")
    actor = ActorView(type="user", id=user.id, name=user.email)
    return SessionView.of(actor, tenant, grants, csrf_token)


async def is_set_up(server: Server, token: str) -> bool:
    """Return False while ``token`` belongs to an unused set-up link."""
    async with server.database.platform() as transaction:
        return not fits(token, await platform.setup_hash(transaction))


async def set_up(server: Server, request: Request, token: str, email: str, password: str) -> User:
    """The first account, once. Raises :class:`Problem`."""
    if await is_set_up(server, token):
        raise _used()
    user = await _new_user(server, FIRST_TENANT, check_email(email), password)
    actor = Actor("user", user.id, "setup", "", address_of(request), agent_header_of(request))
    async with server.database.platform(write=True) as transaction:
        if not fits(token, await platform.setup_hash(transaction)):
            raise _used()
        await platform.clear_setup(transaction)
        scope = transaction.scope(FIRST_TENANT)
        await people.add_user(scope, user)
        await server.auditor.write(scope, _done(actor, "user.created", user, "setup"))
        for role in FIRST_ROLES:
            grant = Grant(role, id=server.new_id("grt"))
            await people.add_grant(scope, "user", user.id, grant, server.now(), user.id)
            record = _done(actor, "role.granted", user, "setup", what=role)
            await server.auditor.write(scope, record)
    return user


def _used() -> Problem:
    return Problem(
        "setup_done",
        "this set-up link is not good: it was used, or another start made a newer one",
        hint="sign in; or look at what the server printed when it was last started",
    )


async def _new_user(server: Server, tenant: str, email: str, password: str) -> User:
    check_new(password)
    return User(
        tenant=tenant,
        id=server.new_id("usr"),
        email=email,
        password=await server.passwords.hash(password),
        invite_hash="",
        invite_expires_at=0,
        created_at=server.now(),
    )


async def invite(
    server: Server, scope: Scope, address: str, email: str, user: User | None = None
) -> Invitation:
    """Create a user, or void the password of ``user``, and return the link to choose a password.

    ``address`` is from :func:`address_here`; without one the link is relative. Raises
    :class:`Problem` if the e-mail address is taken.
    """
    now = server.now()
    token = server.secret(SECRET_SIZE).hex()
    expires = now + int(server.timings.invitation * 1000)
    kept = hash_secret(token)
    if user is None:
        plain = check_email(email)
        if await people.find_user(scope, email=plain) is not None:
            raise Problem("conflict", "there is an account with this address already")
        user = User(scope.tenant, server.new_id("usr"), plain, "", kept, expires, now)
        await people.add_user(scope, user)
    else:
        await people.set_password(
            scope, user.id, password="", invite_hash=kept, invite_expires_at=expires
        )
    link = f"{address}/invite?token={token}"
    return Invitation(id=user.id, email=user.email, link=link, expires_at=expires)


async def is_invited(server: Server, token: str) -> User | None:
    """Whose link it is, if it is good."""
    async with server.database.platform() as transaction:
        user = await platform.find_invited(transaction, hash_secret(token))
    good = user is not None and server.now() < user.invite_expires_at
    return user if good else None


async def accept_invite(server: Server, request: Request, token: str, password: str) -> User:
    """Choose a password, once. Raises :class:`Problem`."""
    check_new(password)
    if await is_invited(server, token) is None:
        raise _void()
    kept = await server.passwords.hash(password)
    async with server.database.platform(write=True) as transaction:
        user = await platform.find_invited(transaction, hash_secret(token))
        if user is None:
            raise _void()
        scope = transaction.scope(user.tenant)
        await people.set_password(scope, user.id, password=kept)
        actor = Actor("user", user.id, "invite", "", address_of(request), agent_header_of(request))
        await server.auditor.write(scope, _done(actor, "user.changed", user, "invite"))
    return msgspec.structs.replace(user, password=kept, invite_hash="")


def _void() -> Problem:
    return Problem(
        "gone",
        "this invitation is not good: it was used, or is too old",
        hint="ask a tenant administrator for a new one",
    )


def _done(actor: Actor, action: str, user: User, permission: str, **details: str) -> Record:
    return Record(
        tenant=user.tenant,
        actor=actor,
        action=action,
        subject=Subject("user", user.id),
        permission=permission,
        outcome="ok",
        details=details,
    )


_LONGEST: Final = 254
_SHAPE: Final = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+")


def plain_email(text: str) -> str:
    """As it is kept and looked up: small letters, composed, no space around it."""
    return unicodedata.normalize("NFC", text.strip().lower())


def check_email(text: str) -> str:
    """The plain form of a new account's address. Raises :class:`Problem`."""
    found = plain_email(text)
    sound = len(found) <= _LONGEST and _SHAPE.fullmatch(found) and _is_text(found)
    if not sound:
        raise Problem("invalid", "this is not an e-mail address", field="email")
    return found


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
