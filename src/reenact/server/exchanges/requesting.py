"""``POST /exchanges/{id}/replays``: one replay, once per ``Idempotency-Key``."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
from sqlalchemy import Row
from starlette.responses import Response

from reenact.format.canonical import digest_bytes
from reenact.server.asking import Ask
from reenact.server.exchanges.ordering import order
from reenact.server.exchanges.shapes import ReplayView
from reenact.server.exchanges.wanting import ReplayRequest
from reenact.server.problems import Problem
from reenact.server.storage.batch_items import count_asked
from reenact.server.storage.database import Scope
from reenact.server.storage.exchange_replays import (
    count_replays,
    find_replay,
    find_request,
    remember_request,
)

__all__ = ["request_replay"]

_KEY: Final = re.compile(r"[\x21-\x7e]{1,200}")
_MINUTE: Final = 60_000


async def request_replay(ask: Ask) -> Response:
    """202 with the replay."""
    wanted = await ask.json(ReplayRequest, most=4 * ask.server.limits.payload)
    exchange_id = ask.path("id")
    return _answer(await order(ask, exchange_id, wanted, _Key.of(ask, exchange_id, wanted)))


class _Key:
    """The ``Idempotency-Key``; without one every request is another one."""

    batch = ""

    def __init__(self, ask: Ask, text: str, digest: str) -> None:
        self._server = ask.server
        self._text = text
        self._digest = digest
        self._principal = f"{ask.principal.type}:{ask.principal.id}"

    @classmethod
    def of(cls, ask: Ask, exchange_id: str, wanted: ReplayRequest) -> _Key:
        text = ask.header("idempotency-key")
        if text and not _KEY.fullmatch(text):
            raise Problem("invalid", "Idempotency-Key has 1 to 200 visible ASCII characters")
        return cls(ask, text, digest_bytes(msgspec.json.encode((exchange_id, wanted))))

    async def before(self, scope: Scope) -> Row[Any] | None:
        """The replay that was asked for under this key. Raises :class:`Problem` when something
        else was."""
        found = await find_request(scope, self._principal, self._text) if self._text else None
        if found is None:
            return None
        if found.digest != self._digest:
            raise Problem(
                "idempotency_conflict",
                "something else was asked for under this Idempotency-Key",
                hint="use a new key for a new replay",
            )
        row = await find_replay(scope, found.replay_id)
        if row is None:
            raise Problem("gone", "the replay that was asked for under this key is gone")
        return row

    async def check(self, scope: Scope) -> None:
        """So many a minute for all people of a tenant; batches have limits of their own."""
        most, since = self._server.limits.replays_per_minute, self._server.now() - _MINUTE + 1
        if await count_replays(scope, since) - await count_asked(scope, since) >= most:
            raise Problem(
                "rate_limited",
                f"more than {most} replays in a minute",
                hint="wait, and ask again",
                retry_after=_MINUTE // 1000,
            )

    async def remember(self, scope: Scope, replay_id: str) -> None:
        if self._text:
            await remember_request(
                scope, self._principal, self._text, self._digest, replay_id, self._server.now()
            )


def _answer(row: Row[Any]) -> Response:
    headers = {"Location": f"/api/v1/replays/{row.replay_id}"}
    body = msgspec.json.encode(ReplayView.of(row))
    return Response(body, 202, headers, "application/json")
