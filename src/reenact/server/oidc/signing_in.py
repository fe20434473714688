"""From a code to a session: who it is, and whether they have an account here.

An account is one that was invited: nobody gets one by signing in. It is found by the e-mail address
that the provider has verified, and from then on belongs to that subject of that issuer.
"""

from __future__ import annotations

from starlette.requests import Request

from reenact.audit.record import Actor, Record, Subject
from reenact.server.oidc.attempt import Attempt
from reenact.server.oidc.provider import Provider
from reenact.server.oidc.tokens import Expected, Identity, TokenRefused, check_id_token, identity_of
from reenact.server.people.authenticating import address_of, agent_header_of
from reenact.server.people.credentials import hash_secret, session_name
from reenact.server.people.emails import plain_email
from reenact.server.people.sessions import Opened, cookie_of, open_session
from reenact.server.people.throttling import ADDRESS, after_failure, check_wait
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.storage import oidc_rows, platform
from reenact.server.storage.database import Platform
from reenact.server.storage.people_rows import User

__all__ = ["count_attempt", "forgive_attempt", "identify", "sign_in_as"]


async def identify(
    server: Server, provider: Provider, attempt: Attempt, code: str, redirect: str
) -> Identity:
    """Who the code is about. Raises :class:`Problem`."""
    try:
        given = await provider.redeem(code, attempt.verifier, redirect)
        keys = await provider.keys(given.id_token)
        settings = provider.settings
        expected = Expected(settings.issuer, settings.client_id, attempt.nonce, server.now() / 1000)
        claims = dict(check_id_token(given.id_token, keys, expected))
        identity = identity_of(claims)
        if identity.email or "email" in claims:
            return identity
        more = await provider.userinfo(given.access_token)
        if more and more.get("sub") != identity.subject:
            raise TokenRefused("it is about somebody else than the rest")
        return identity_of({**more, "sub": identity.subject})
    except TokenRefused as error:
        raise _refused(f"what the provider sent is not good: {error}") from None


async def sign_in_as(
    server: Server, request: Request, provider: Provider, attempt: Attempt, identity: Identity
) -> Opened:
    """A new session of whoever has the account. Raises :class:`Problem`."""
    if not identity.email:
        raise _refused("the provider names no e-mail address, or has not verified it")
    tenant = provider.settings.tenant or attempt.tenant
    async with server.database.platform(write=True) as transaction:
        users = await platform.users_by_email(transaction, plain_email(identity.email))
        if tenant:
            wanted = await platform.tenant_ids(transaction, tenant)
            users = [one for one in users if one.tenant in wanted]
        user = _only(users)
        same = await _is_same(server, transaction, provider.settings.issuer, user, identity)
        if same:
            opened = await open_session(server, transaction, user, cookie_of(request))
            actor = _actor(request, "user", user.id, session_name(opened.hash))
            record = Record(tenant=user.tenant, actor=actor, action="session.opened", outcome="ok")
        else:
            record = Record(
                tenant=user.tenant,
                actor=_actor(request, "system", "sign-in", ""),
                action="session.refused",
                subject=Subject("user", user.id),
                code="credentials_wrong",
                outcome="denied",
            )
        await server.auditor.write(transaction.scope(user.tenant), record)
    if not same:
        raise _refused(
            "this address belonged to somebody else at the provider when the account was first used",
            hint="ask a tenant administrator to remove the account and invite you again",
        )
    return opened


async def _is_same(
    server: Server, transaction: Platform, issuer: str, user: User, identity: Identity
) -> bool:
    """Is it the one who has always been? The first one is."""
    scope = transaction.scope(user.tenant)
    known = await oidc_rows.subject_of(scope, user.id, issuer)
    if not known:
        await oidc_rows.link_identity(scope, user.id, issuer, identity.subject, server.now())
    return known in ("", identity.subject)


def _only(users: list[User]) -> User:
    if not users:
        raise _refused(
            "nobody with this address has an account here",
            hint="ask a tenant administrator to invite you",
        )
    if len(users) > 1:
        raise Problem(
            "invalid",
            "there are accounts of this name in several tenants",
            hint=f"begin at /signin/oidc?tenant= and one of {', '.join(one.tenant for one in users)}",
        )
    return users[0]


def _actor(request: Request, kind: str, who: str, credential: str) -> Actor:
    return Actor(kind, who, "oidc", credential, address_of(request), agent_header_of(request))


def _refused(why: str, hint: str = "") -> Problem:
    return Problem("credentials_wrong", why, hint=hint)


async def count_attempt(server: Server, request: Request) -> None:
    """Attempts count before anything is asked of the provider. Raises :class:`Problem`."""
    key, now = _address(request), server.now()
    async with server.database.platform(write=True) as transaction:
        before = await platform.attempts(transaction, key)
        check_wait(before, ADDRESS, now)
        await platform.note_attempt(transaction, key, after_failure(before, ADDRESS, now))


async def forgive_attempt(server: Server, request: Request) -> None:
    """It was a good one."""
    key = _address(request)
    async with server.database.platform(write=True) as transaction:
        before = await platform.attempts(transaction, key)
        less = platform.Attempts(max(0, before.failures - 1), server.now())
        await platform.note_attempt(transaction, key, less)


def _address(request: Request) -> str:
    return hash_secret(f"address:{address_of(request)}")
