"""What a demo needs before it starts: somebody who may do everything, environments, keys of agents."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.server.access import Grant
from reenact.server.asking import Ask
from reenact.server.people.credentials import SECRET_SIZE, KeyKind, fits, hash_secret, key_text
from reenact.server.people.sessions import cookie_of, open_session, set_cookie
from reenact.server.ports import Server
from reenact.server.problems import Problem
from reenact.server.routing import Endpoint
from reenact.server.storage import people_rows
from reenact.server.storage.database import Scope
from reenact.server.storage.people_rows import Environment, Key, User
from reenact.server.storage.setting_up import FIRST_TENANT

__all__ = ["AGENTS", "Prepared", "entrance", "prepare"]

AGENTS: Final = (("warehouse", "staging"), ("shop", "staging"), ("shop", "production"))
_ROLES: Final = ("production replayer", "replay:live", "tenant admin", "platform admin")
_EMAIL: Final = "demo@example.com"


class Prepared(msgspec.Struct, frozen=True):
    """``agents`` are the keys of :data:`AGENTS`, ``operator`` that of whoever fills the demo, and
    ``token`` what the link has in it."""

    user: User
    agents: tuple[str, ...]
    operator: str
    token: str

    def __repr__(self) -> str:
        return "Prepared()"


async def prepare(server: Server) -> Prepared:
    """In a server on which nobody has an account."""
    now = server.now()
    kept = await server.passwords.hash(server.secret(SECRET_SIZE).hex())  # nobody knows it
    user = User(FIRST_TENANT, server.new_id("usr"), _EMAIL, kept, "", 0, now)
    async with server.database.writing(FIRST_TENANT) as scope:
        await people_rows.add_user(scope, user)
        for role in _ROLES:
            grant = Grant(role, id=server.new_id("grt"))
            await people_rows.add_grant(scope, "user", user.id, grant, now, user.id)
        await people_rows.set_environment(scope, Environment("staging", "non-production"))
        await people_rows.set_environment(scope, Environment("production", "production"))
        agents = [await _key(server, scope, "agent", app, place) for app, place in AGENTS]
        operator = await _key(server, scope, "user", owner=user.id)
    return Prepared(user, tuple(agents), operator, server.secret(SECRET_SIZE).hex())


async def _key(
    server: Server,
    scope: Scope,
    kind: KeyKind,
    app: str = "",
    environment: str = "",
    owner: str = "",
) -> str:
    secret = server.secret(SECRET_SIZE).hex()
    key = Key(
        tenant=scope.tenant,
        id=server.new_id("key"),
        kind=kind,
        name=app or "demo",
        hash=hash_secret(secret),
        app=app,
        environment=environment,
        owner=owner,
        created_at=server.now(),
        expires_at=0,
    )
    await people_rows.add_key(scope, key)
    return key_text(kind, key.id, secret)


def entrance(prepared: Prepared) -> Endpoint:
    """A link that opens a session, once; only a demo has one."""
    kept = [hash_secret(prepared.token)]

    async def enter(ask: Ask) -> Response:
        """On to the history, signed in."""
        if not kept or not fits(ask.query("token"), kept[0]):
            raise Problem("gone", "this link was used", hint="start the demo again for another one")
        kept.clear()
        async with ask.server.database.platform(write=True) as transaction:
            opened = await open_session(
                ask.server, transaction, prepared.user, cookie_of(ask.request)
            )
        response = RedirectResponse("/exchanges", 303)
        set_cookie(ask.request, response, opened.secret)
        return response

    return Endpoint("GET", "/demo", "open", enter, page=True)
