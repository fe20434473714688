"""Request context: the caller, their permissions, and access to the request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from reenact.server.audit.log import change_record
from reenact.server.auth.permissions import (
    ANYWHERE,
    Decision,
    Permission,
    ResourceScope,
    decide,
    has_anywhere,
)
from reenact.server.http.transfer_rate import Pace
from reenact.server.problems import Problem
from reenact.server.runtime import Principal, Server
from reenact.server.storage.database import Scope

__all__ = ["MOST_ITEMS", "PAGE_SIZE", "Caller", "RequestContext", "deny"]

T = TypeVar("T")
PAGE_SIZE = 50
"""Items of a list without a requested number."""
MOST_ITEMS = 500


class Caller:
    """An authenticated principal, for a request or for a background job on their behalf."""

    def __init__(self, server: Server, principal: Principal | None) -> None:
        self.server = server
        self._principal = principal

    @property
    def principal(self) -> Principal:
        if self._principal is None:
            raise Problem("unauthenticated", "this needs a key or a session", hint="reenact login")
        return self._principal

    @property
    def tenant(self) -> str:
        return self.principal.tenant.id

    def may(self, permission: Permission, place: ResourceScope = ANYWHERE) -> Decision:
        """Return the current decision about ``permission``."""
        return decide(self.principal.grants, permission, place, self.server.now())

    def require(self, permission: Permission, place: ResourceScope = ANYWHERE) -> Decision:
        """Return the decision, or raise :class:`Problem` if it denies.

        The app audits the denial.
        """
        decision = self.may(permission, place)
        if not decision.allowed:
            raise deny(permission, place)
        return decision

    def has_anywhere(self, permission: Permission) -> bool:
        """Return whether the caller has ``permission`` in at least one location."""
        return has_anywhere(self.principal.grants, permission, self.server.now())

    def require_anywhere(self, permission: Permission) -> None:
        """Raise :class:`Problem` unless the caller has ``permission`` in at least one location."""
        if not self.has_anywhere(permission):
            raise deny(permission)

    async def record(
        self, scope: Scope, action: str, subject: str, id: str, permission: str, **details: str
    ) -> None:
        """Write the audit record of ``action`` on the ``subject`` with ``id``, in the transaction
        and the log of ``scope``."""
        record = change_record(
            self.principal, action, subject, id, permission, tenant=scope.tenant, **details
        )
        await self.server.auditor.write(scope, record)


class RequestContext(Caller):
    """A request and its caller. Requests to ``open`` routes have no principal."""

    def __init__(self, request: Request, server: Server, principal: Principal | None) -> None:
        super().__init__(server, principal)
        self.request = request

    def path(self, name: str) -> str:
        """A part of the path."""
        value: str = self.request.path_params[name]
        return value

    def query(self, name: str, default: str = "") -> str:
        value: str = self.request.query_params.get(name, default)
        return value

    def header(self, name: str) -> str:
        """A header; empty when it is not there."""
        value: str = self.request.headers.get(name, "")
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**53 - 1) -> int:
        """A whole number of the query. Raises :class:`Problem` for anything else."""
        text = self.query(name)
        if not text:
            return default
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 17 else -1
        if not least <= value <= most:
            raise Problem("invalid", f"{name} is a number from {least} to {most}", field=name)
        return value

    @property
    def limit(self) -> int:
        """Requested number of items."""
        return self.number("limit", PAGE_SIZE, least=1, most=MOST_ITEMS)

    async def body(self, most: int | None = None) -> bytes:
        """The body, of at most ``most`` bytes. Raises :class:`Problem` ``too_large``, and has then
        read no more than that; ``too_slow`` for one that does not come."""
        limit = self.server.limits.body if most is None else most
        if self._length(0) > limit:
            raise _too_large(limit)
        try:
            return await self._read(limit)
        except TimeoutError:
            raise Problem("too_slow", "the body comes too slowly", hint="send it again") from None

    def _length(self, unknown: int) -> int:
        """Return the declared length of the body."""
        text = self.request.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() else unknown

    async def _read(self, limit: int) -> bytes:
        parts, size = [], 0
        pace = Pace(self.server)
        async with pace.limit() as timeout:
            async for part in self.request.stream():
                size += len(part)
                if size > limit:
                    raise _too_large(limit)
                parts.append(part)
                timeout.reschedule(pace.moved(len(part)))
        return b"".join(parts)

    @asynccontextmanager
    async def taken(self, most: int) -> AsyncIterator[bytes]:
        """Yield a large body of at most ``most`` bytes when its turn has come, and reserve memory
        for it until the block ends.

        Raises :class:`Problem` if no memory is available.
        """
        intake, size = self.server.intake, min(self._length(most), most)
        with intake.room.taken(self.tenant, size):
            data = await self.body(most)
            async with intake.turns.turn(self.tenant):
                yield data

    async def json(self, kind: type[T], most: int | None = None) -> T:
        """The body as a value of ``kind``. Raises :class:`Problem`."""
        content = self.request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content != "application/json":
            raise Problem("unsupported", "the body has to be application/json")
        data = await self.body(most)
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError as error:
            raise Problem("invalid", f"the body does not fit: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Problem("malformed", f"the body is not JSON: {error}") from None


def deny(
    permission: Permission, place: ResourceScope = ANYWHERE, code: str = "permission_denied"
) -> Problem:
    """Return the problem for a missing permission, with its name and location."""
    where = f" in {place.environment}" if place.environment else ""
    details: dict[str, Any] = {"permission": permission}
    if place.environment is not None:
        details["environment"] = place.environment
    if place.app is not None:
        details["app"] = place.app
    return Problem(
        code,
        f"the permission {permission} is missing{where}",
        hint="ask a tenant administrator",
        command="reenact user grant",
        **details,
    )


def _too_large(limit: int) -> Problem:
    return Problem("too_large", f"the body has more than {limit} bytes", limit=limit)
