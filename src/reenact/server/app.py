"""The ASGI application: routing, authentication, permissions, error responses.

Every route of the table takes the same path. Errors have one JSON shape, and denials are audited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reenact.audit.record import Record
from reenact.format.decoders import build_all_decoders
from reenact.server.audit.log import actor_of
from reenact.server.auth.authentication import authenticate, check_origin
from reenact.server.auth.permissions import Permission, has_anywhere
from reenact.server.context import RequestContext, deny
from reenact.server.endpoint import Endpoint, Needs, answer_problem, to_response
from reenact.server.http.middleware import LOGGER, ServerMiddleware, request_id_of, told_of
from reenact.server.problems import Problem
from reenact.server.routes import BACKGROUND, ENDPOINTS
from reenact.server.runtime import Principal, Server
from reenact.server.storage.database import is_full, storage_full
from reenact.server.web.components.forms import check_form
from reenact.server.web.errors import error_page, is_browser, unknown_route_page, wants_page

__all__ = ["make_app"]

Background = Callable[[Server, asyncio.Event], Awaitable[None]]
_WORDS = {404: ("not_found", "there is nothing here"), 405: ("method_not_allowed", "not like this")}


def make_app(
    server: Server,
    endpoints: Sequence[Endpoint] = ENDPOINTS,
    background: Sequence[Background] = BACKGROUND,
) -> Starlette:
    """The app of ``server``. ``background`` runs from start to stop; its event is
    ``server.stopping``."""
    build_all_decoders()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for work in background:
                group.create_task(_run(work, server))
            yield
            server.stopping.set()

    app = Starlette(
        routes=[_route(server, path, found) for path, found in _by_path(endpoints).items()],
        middleware=[Middleware(ServerMiddleware, server=server)],
        exception_handlers={HTTPException: partial(_answer_http, server)},
        lifespan=lifespan,
    )
    # A path with one more slash would be redirected to an address made of the `Host` header.
    app.router.redirect_slashes = False
    return app


async def _run(work: Background, server: Server) -> None:
    """Run a background job until the server stops, and restart it after a failure.

    Without the restart, replays would silently stop expiring.
    """
    while not server.stopping.is_set():
        try:
            await work(server, server.stopping)
            return
        except Exception:  # noqa: BLE001 - logged, then restarted
            LOGGER.exception("what runs in the background failed, and is begun again")
            with suppress(TimeoutError):
                await asyncio.wait_for(server.stopping.wait(), server.timings.retry)


def _by_path(endpoints: Iterable[Endpoint]) -> dict[str, dict[str, Endpoint]]:
    paths: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        methods = paths.setdefault(endpoint.path, {})
        if endpoint.method in methods:
            raise ValueError(f"{endpoint.method} {endpoint.path} is there twice")
        methods[endpoint.method] = endpoint
    return paths


def _route(server: Server, path: str, methods: dict[str, Endpoint]) -> Route:
    async def serve(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await _serve(server, methods[method], request)

    return Route(path, serve, methods=list(methods))


async def _serve(server: Server, endpoint: Endpoint, request: Request) -> Response:
    principal = None
    told_of(request, endpoint.path, "")
    try:
        if endpoint.needs != "open":
            principal = await authenticate(server, request)
            told_of(request, endpoint.path, principal.id, principal.tenant.id)
            await _check_sender(server, endpoint, request, principal)
            _check(principal, endpoint.needs, server.now())
        return to_response(await _handle(endpoint, RequestContext(request, server, principal)))
    except Problem as problem:
        if principal is not None and problem.status == 403 and not problem.audited:
            await _record_denial(server, principal, endpoint, problem)
        if endpoint.page and is_browser(request):
            request_id = request_id_of(request)
            return await error_page(server, request, principal, problem, request_id)
        return answer_problem(problem, request_id_of(request))


async def _handle(endpoint: Endpoint, context: RequestContext) -> Response | msgspec.Struct | None:
    """Raises :class:`Problem`."""
    try:
        return await endpoint.handler(context)
    except OSError as error:
        if is_full(error):
            raise storage_full() from error
        raise


async def _check_sender(
    server: Server, endpoint: Endpoint, request: Request, principal: Principal
) -> None:
    """Raises :class:`Problem` for what changes something and may be another site's."""
    if not endpoint.page:
        check_origin(request, principal)
    elif endpoint.method == "POST" and principal.auth == "session":
        await check_form(RequestContext(request, server, principal))


def _wanted(needs: Needs) -> tuple[Permission, ...]:
    if needs == "open" or needs == "known":
        return ()
    return needs if isinstance(needs, tuple) else (needs,)


def _check(principal: Principal, needs: Needs, now: int) -> None:
    wanted = _wanted(needs)
    if wanted and not any(has_anywhere(principal.grants, one, now) for one in wanted):
        raise deny(wanted[0])


async def _record_denial(
    server: Server, principal: Principal, endpoint: Endpoint, problem: Problem
) -> None:
    permission = problem.details.get("permission") or "".join(_wanted(endpoint.needs)[:1])
    record = Record(
        tenant=principal.tenant.id,
        actor=actor_of(principal),
        action="access.denied",
        env=str(problem.details.get("environment", "")),
        permission=str(permission or "known"),
        code=problem.code,
        outcome="denied",
        details={"route": f"{endpoint.method} {endpoint.path}"},
    )
    async with server.database.writing(principal.tenant.id) as scope:
        await server.auditor.write(scope, record)


async def _answer_http(server: Server, request: Request, error: Exception) -> Response:
    """Respond to a request without a route."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, words = _WORDS.get(status, ("malformed", "this is not understood"))
    problem, request_id = Problem(code, words), request_id_of(request)
    if wants_page(request):
        response = await unknown_route_page(server, request, problem, request_id)
    else:
        response = answer_problem(problem, request_id)
    if isinstance(error, HTTPException) and error.headers and "Allow" in error.headers:
        response.headers["Allow"] = error.headers["Allow"]
    return response
