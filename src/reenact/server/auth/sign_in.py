"""Sign-in with e-mail address and password, with throttling of failures, and sign-out."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request

from reenact.audit.record import Actor, Record, Subject
from reenact.server.auth.authentication import (
    Opened,
    address_of,
    agent_header_of,
    cookie_of,
    open_session,
)
from reenact.server.auth.credentials import hash_secret, session_name
from reenact.server.people.accounts import plain_email
from reenact.server.problems import Problem
from reenact.server.runtime import Principal, Server
from reenact.server.storage import platform
from reenact.server.storage.database import Platform
from reenact.server.storage.people import User
from reenact.server.storage.platform import Attempts

__all__ = [
    "ACCOUNT",
    "ADDRESS",
    "SignedIn",
    "after_failure",
    "check_wait",
    "sign_in",
    "sign_out",
]


class SignedIn(msgspec.Struct, frozen=True):
    """The user and their new session."""

    user: User
    opened: Opened


async def sign_in(
    server: Server, request: Request, email: str, password: str, tenant: str
) -> SignedIn:
    """A new session. Raises :class:`Problem`, which does not tell whether there is such an account.

    An attempt counts before it is looked at, and a good one is taken back: many at once gain
    nothing.
    """
    plain = plain_email(email)
    account, address = _account_key(plain), hash_secret(f"address:{address_of(request)}")
    await _count(server, account, address)
    async with server.database.platform() as transaction:
        users = await platform.users_by_email(transaction, plain)
        if tenant:
            wanted = await platform.tenant_ids(transaction, tenant)
            users = [user for user in users if user.tenant in wanted]
    found = await _matching(server, users, password)
    if not found:
        await _record_refusals(server, request, users)
        raise Problem("credentials_wrong", "e-mail address or password is wrong")
    async with server.database.platform(write=True) as transaction:
        await platform.forget_attempts(transaction, account)
        before = await platform.attempts(transaction, address)
        less = platform.Attempts(max(0, before.failures - 1), server.now())
        await platform.note_attempt(transaction, address, less)
        user = await _only(transaction, found)
        opened = await open_session(server, transaction, user, cookie_of(request))
        actor = _actor(request, user, session_name(opened.hash))
        record = Record(tenant=user.tenant, actor=actor, action="session.opened", outcome="ok")
        await server.auditor.write(transaction.scope(user.tenant), record)
    return SignedIn(user, opened)


def _account_key(email: str) -> str:
    return hash_secret(f"account:{email}")


async def _count(server: Server, account: str, address: str) -> None:
    now = server.now()
    async with server.database.platform(write=True) as transaction:
        found = {}
        for key, free in ((account, ACCOUNT), (address, ADDRESS)):
            before = await platform.attempts(transaction, key)
            check_wait(before, free, now)
            found[key] = after_failure(before, free, now)
        for key, attempts in found.items():
            await platform.note_attempt(transaction, key, attempts)


async def _matching(server: Server, users: list[User], password: str) -> list[User]:
    if not users:
        await server.passwords.check(password, "")
    return [user for user in users if await server.passwords.check(password, user.password)]


async def _only(transaction: Platform, users: list[User]) -> User:
    if len(users) > 1:
        tenants = [await platform.tenant_by_id(transaction, user.tenant) for user in users]
        names = sorted(one.name for one in tenants if one is not None)
        raise Problem(
            "invalid",
            f"several tenants have an account with this address: {', '.join(names)}",
            hint="name the tenant",
            command="reenact login URL --tenant NAME",
            tenants=[user.tenant for user in users],
        )
    return users[0]


async def _record_refusals(server: Server, request: Request, users: list[User]) -> None:
    """In the log of each tenant that has such an account. Of others there is nothing to say."""
    for user in users:
        record = Record(
            tenant=user.tenant,
            actor=Actor("system", "sign-in", ip=address_of(request), ua=agent_header_of(request)),
            action="session.refused",
            subject=Subject("user", user.id),
            code="credentials_wrong",
            outcome="denied",
        )
        async with server.database.writing(user.tenant) as scope:
            await server.auditor.write(scope, record)


def _actor(request: Request, user: User, credential: str) -> Actor:
    return Actor(
        "user", user.id, "password", credential, address_of(request), agent_header_of(request)
    )


async def sign_out(server: Server, request: Request, principal: Principal) -> None:
    """End the session that the request came with. Raises :class:`Problem` when it came with a key."""
    if principal.auth != "session":
        raise Problem(
            "invalid",
            "this is a key, and no session",
            hint="revoke it: DELETE /api/v1/keys/own",
        )
    actor = Actor(
        "user", principal.id, "session", principal.credential, principal.ip, principal.agent_header
    )
    tenant = principal.tenant.id
    record = Record(tenant=tenant, actor=actor, action="session.closed", outcome="ok")
    async with server.database.platform(write=True) as transaction:
        await platform.close_session(transaction, hash_secret(cookie_of(request)))
        await server.auditor.write(transaction.scope(tenant), record)


ACCOUNT: Final = 5
"""Failures that cost nothing, for one account."""
ADDRESS: Final = 20
"""Failures per client address, which can be shared by many users."""
_LONGEST: Final = 15 * 60
_FORGOTTEN: Final = 60 * 60


def check_wait(found: Attempts, free: int, now: int) -> None:
    """Raise :class:`Problem` while sign-ins are blocked.

    The remaining time is capped, because a clock that was set back would prolong it.
    """
    left = found.until - now
    if 0 < left <= _seconds(found.failures - free) * 1000:
        seconds = -(-left // 1000)
        raise Problem(
            "rate_limited",
            "too many sign-ins failed",
            hint=f"try again in {seconds} s",
            retry_after=seconds,
        )


def after_failure(found: Attempts, free: int, now: int) -> Attempts:
    """One more. After the free ones each wait is twice as long as the one before, up to a quarter
    of an hour; an hour without any makes all forgotten."""
    before = 0 if now - found.until > _FORGOTTEN * 1000 else found.failures
    return Attempts(before + 1, now + _seconds(before + 1 - free) * 1000)


def _seconds(beyond: int) -> int:
    return 0 if beyond < 0 else min(_LONGEST, 2 ** min(beyond, 20))
