"""How long a tenant keeps what."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from reenact.server.asking import Ask
from reenact.server.changing import changed
from reenact.server.routing import Endpoint, Says
from reenact.server.storage.retention_rows import Days, read_days, set_days

__all__ = ["ENDPOINTS", "Retention"]

_PATH: Final = "/api/v1/retention"
_Number = Annotated[int, msgspec.Meta(ge=0, le=36_500)]


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Days; 0 for ever."""

    exchanges: _Number = 0
    recordings: _Number = 0
    captures: _Number = 0


async def read_retention(ask: Ask) -> Retention:
    ask.require("tenant:admin")
    async with ask.server.database.reading(ask.tenant) as scope:
        row = await read_days(scope)
    if row is None:
        return Retention()
    return Retention(exchanges=row.exchanges, recordings=row.recordings, captures=row.captures)


async def put_retention(ask: Ask) -> Retention:
    """What is too old by it goes with the next sweep, and does not come back."""
    ask.require("tenant:admin")
    wanted = await ask.json(Retention)
    days = Days(wanted.exchanges, wanted.recordings, wanted.captures)
    async with ask.server.database.writing(ask.tenant) as scope:
        await set_days(scope, days, ask.server.now(), ask.principal.id)
        record = changed(
            ask.principal,
            "retention.changed",
            "tenant",
            ask.tenant,
            "tenant:admin",
            exchanges=str(wanted.exchanges),
            recordings=str(wanted.recordings),
            captures=str(wanted.captures),
        )
        await ask.server.auditor.write(scope, record)
    return wanted


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        _PATH,
        "tenant:admin",
        read_retention,
        says=Says("How long what is kept", answers=Retention),
    ),
    Endpoint(
        "PUT",
        _PATH,
        "tenant:admin",
        put_retention,
        says=Says("Say how long", takes=Retention, answers=Retention),
    ),
)
