"""The demo: a server in a temporary folder, its two apps, accounts and traffic."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from starlette.responses import RedirectResponse, Response

from reenact.server.app import make_app
from reenact.server.auth.authentication import cookie_of, open_session, set_cookie
from reenact.server.auth.credentials import SECRET_SIZE, KeyKind, fits, hash_secret, key_text
from reenact.server.auth.permissions import Grant
from reenact.server.context import RequestContext
from reenact.server.demo.traffic import Traffic
from reenact.server.endpoint import Endpoint
from reenact.server.problems import Problem
from reenact.server.process.serve import Uvicorn, bind, url_of
from reenact.server.process.startup import World, open_server
from reenact.server.routes import ENDPOINTS
from reenact.server.runtime import Server
from reenact.server.storage import people
from reenact.server.storage.database import Scope
from reenact.server.storage.people import Environment, Key, User
from reenact.server.storage.setup import FIRST_TENANT

__all__ = [
    "AGENTS",
    "Prepared",
    "entrance",
    "prepare",
    "serve_demo",
]

_PATIENCE: Final = 15


def serve_demo(host: str, port: int) -> int:
    """Serve a demo until SIGINT or SIGTERM; gives the exit code. Raises :class:`UsageError`."""
    with tempfile.TemporaryDirectory(prefix="reenact-demo-") as folder:
        return asyncio.run(_serve(Path(folder), host, port))


async def _serve(folder: Path, host: str, port: int) -> int:
    async with open_server(folder / "server", "demo.internal", World()) as opened:
        prepared = await prepare(opened.server)
        with bind(host, port) as sock, ExitStack() as beside:
            url = url_of(sock)
            running = Uvicorn(
                make_app(opened.server, (*ENDPOINTS, entrance(prepared))),
                opened.server.stopping,
                ready=lambda: beside.enter_context(_shops(folder, url, prepared)),
            )
            await running.serve([sock])
            return 0 if running.started else 1


@contextmanager
def _shops(folder: Path, url: str, prepared: Prepared) -> Iterator[None]:
    """The apps, and what happens in them, until the block ends."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(bind("127.0.0.1", 0)) for _ in AGENTS]
        places = [url_of(sock) for sock in sockets]
        for (app, environment), key, sock in zip(AGENTS, prepared.agents, sockets, strict=True):
            said = {
                "DEMO_SERVER": url,
                "DEMO_AGENT_KEY": key,
                "DEMO_ENVIRONMENT": environment,
                "DEMO_DATA": str(folder / f"{app}-{environment}"),
                "DEMO_WAREHOUSE": places[0],
            }
            stack.enter_context(_program(app, said, sock))
        traffic = Traffic(url, prepared.operator, places[1], places[2], places[0], folder)
        thread = threading.Thread(target=_fill, args=(traffic, url, prepared), name="demo")
        thread.start()
        stack.callback(thread.join)
        stack.callback(traffic.stopping.set)
        yield


def _fill(traffic: Traffic, url: str, prepared: Prepared) -> None:
    _say(f"a shop is starting at {url}; orders are coming in …")
    if not traffic.run() and not traffic.stopping.is_set():
        _say("the shop does not answer as it should: you see what came in before")
    _say(f"look around, with this link, which works once:\n  {url}/demo?token={prepared.token}")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


@contextmanager
def _program(app: str, said: dict[str, str], sock: socket.socket) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "reenact.server.demo.apps", app],
        env={**os.environ, **said, "DEMO_SOCKET": str(sock.fileno())},
        stdin=subprocess.PIPE,
        pass_fds=[sock.fileno()],
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        process.stdin.close()
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


AGENTS: Final = (("warehouse", "staging"), ("shop", "staging"), ("shop", "production"))
_ROLES: Final = ("production replayer", "replay:live", "tenant admin", "platform admin")
_EMAIL: Final = "demo@example.com"


class Prepared(msgspec.Struct, frozen=True):
    """Credentials of the demo.

    ``agents`` are the keys of :data:`AGENTS`, ``operator`` is the key of the traffic generator,
    ``token`` is part of the entry link.
    """

    user: User
    agents: tuple[str, ...]
    operator: str
    token: str

    def __repr__(self) -> str:
        return "Prepared()"


async def prepare(server: Server) -> Prepared:
    """Create accounts, environments and keys on a new server."""
    now = server.now()
    kept = await server.passwords.hash(server.secret(SECRET_SIZE).hex())  # nobody knows it
    user = User(FIRST_TENANT, server.new_id("usr"), _EMAIL, kept, "", 0, now)
    async with server.database.writing(FIRST_TENANT) as scope:
        await people.add_user(scope, user)
        for role in _ROLES:
            grant = Grant(role, id=server.new_id("grt"))
            await people.add_grant(scope, "user", user.id, grant, now, user.id)
        await people.set_environment(scope, Environment("staging", "non-production"))
        await people.set_environment(scope, Environment("production", "production"))
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
    await people.add_key(scope, key)
    return key_text(kind, key.id, secret)


def entrance(prepared: Prepared) -> Endpoint:
    """A link that opens a session, once; only a demo has one."""
    kept = [hash_secret(prepared.token)]

    async def enter(context: RequestContext) -> Response:
        """On to the history, signed in."""
        if not kept or not fits(context.query("token"), kept[0]):
            raise Problem("gone", "this link was used", hint="start the demo again for another one")
        kept.clear()
        async with context.server.database.platform(write=True) as transaction:
            opened = await open_session(
                context.server, transaction, prepared.user, cookie_of(context.request)
            )
        response = RedirectResponse("/exchanges", 303)
        set_cookie(context.request, response, opened.secret)
        return response

    return Endpoint("GET", "/demo", "open", enter, page=True)
