"""Retention periods of a tenant, and the background job that erases what is too old.

Content is erased first, then the rows, together with an audit record. If the server dies in between, the
rows still lead to the content, so nothing is erased without a record and no content is left without a row.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from reenact.audit.record import Record, Subject
from reenact.errors import ReenactError
from reenact.server.audit.log import SYSTEM
from reenact.server.problems import Problem
from reenact.server.runtime import Server, repeat
from reenact.server.storage.database import Scope
from reenact.server.storage.retention import (
    Days,
    erase_captures,
    erase_edits,
    erase_exchanges,
    erase_values,
    note_erased,
    old_captures,
    old_exchanges,
    old_recordings,
    still_named,
    tenants_with_days,
)
from reenact.server.storage.rows import pack

__all__ = ["run", "sweep"]

_LOG: Final = logging.getLogger("reenact.server")
_DAY: Final = 86_400_000
_AT_ONCE: Final = 200
_TOGETHER: Final = 16


async def run(server: Server, stop: asyncio.Event) -> None:
    """Sweep now and then until ``stop`` is set."""
    await repeat(
        stop,
        server.timings.retention,
        lambda: sweep(server),
        "what is too old could not be looked for",
        (SQLAlchemyError,),
    )


async def sweep(server: Server) -> None:
    """Erase what is too old, in every tenant. One that fails does not keep the others."""
    async with server.database.platform() as platform:
        rows = await tenants_with_days(platform)
    for row in rows:
        days = Days(row.exchanges, row.recordings, row.captures)
        try:
            await _Sweep(server, row.tenant, days).all()
        except (ReenactError, Problem):
            _LOG.exception("retention of the tenant %s failed", row.tenant)


class _Sweep:
    """Of one tenant. Each step is a transaction, and gives whether there may be more."""

    def __init__(self, server: Server, tenant: str, days: Days) -> None:
        self._server = server
        self._tenant = tenant
        self._days = days

    async def all(self) -> None:
        steps = {
            self._exchanges: self._days.exchanges,
            self._values: self._days.exchanges,
            self._recordings: self._days.recordings,
            self._captures: self._days.captures,
        }
        for step, days in steps.items():
            before = self._server.now() - days * _DAY
            more = bool(days)
            while more and not self._server.stopping.is_set():
                async with self._server.database.writing(self._tenant) as scope:
                    more = await step(scope, before)

    async def _exchanges(self, scope: Scope, before: int) -> bool:
        rows = await old_exchanges(scope, before, _AT_ONCE)
        if not rows:
            return False
        ids = [row.exchange_id for row in rows]
        digests = {row.recording_digest for row in rows} - {""}
        await erase_exchanges(scope, ids)
        await self._contents(scope, digests, 0)
        await self._record(scope, before, exchanges=len(ids))
        return len(rows) == _AT_ONCE

    async def _values(self, scope: Scope, before: int) -> bool:
        values = await erase_values(scope, before)
        edits = await erase_edits(scope, before, pack([]))
        if values or edits:
            await self._record(scope, before, values=values, edits=edits)
        return False

    async def _recordings(self, scope: Scope, before: int) -> bool:
        digests = await old_recordings(scope, before, _AT_ONCE)
        gone = await self._contents(scope, set(digests), before)
        await note_erased(scope, sorted(gone), self._server.now())
        if gone:
            await self._record(scope, before, recordings=len(gone))
        return bool(gone) and len(digests) == _AT_ONCE

    async def _contents(self, scope: Scope, digests: set[str], since: int) -> set[str]:
        """Erase and return the ``digests`` that nothing since ``since`` needs."""
        if not digests:
            return set()
        gone = digests - await still_named(scope, sorted(digests), since)
        await self._erase(gone)
        return gone

    async def _erase(self, digests: set[str]) -> None:
        """A few at a time: a store elsewhere takes its time for each, and others wait to write. Raises
        what one of them raised, when all have ended."""
        turns = asyncio.Semaphore(_TOGETHER)

        async def erase(digest: str) -> None:
            async with turns:
                await self._server.blobs.erase(self._tenant, digest)

        for result in await asyncio.gather(*map(erase, digests), return_exceptions=True):
            if result is not None:
                raise result

    async def _captures(self, scope: Scope, before: int) -> bool:
        rows = await old_captures(scope, before, _AT_ONCE)
        if not rows:
            return False
        await self._erase({row.digest for row in rows if not row.shared})
        await erase_captures(scope, [row.capture_id for row in rows])
        await self._record(scope, before, captures=len(rows))
        return len(rows) == _AT_ONCE

    async def _record(self, scope: Scope, before: int, **erased: int) -> None:
        record = Record(
            tenant=self._tenant,
            actor=SYSTEM,
            action="retention.applied",
            subject=Subject("tenant", self._tenant),
            outcome="ok",
            details={
                "before": str(before),
                **{kind: str(number) for kind, number in erased.items() if number},
            },
        )
        await self._server.auditor.write(scope, record)
        for kind, number in erased.items():
            if number:
                self._server.meters.add("reenact_retention_erased_total", number, kind=kind)
