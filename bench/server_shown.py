"""Pages of a server, and the queries without which they cannot be made."""

from __future__ import annotations

from typing import Final

import msgspec

from bench.server_rooms import LARGEST
from reenact.server.storage.exchanges import BRIEF

__all__ = ["BRIEFLY", "NEWEST", "Page", "pages_of"]

_BRIEF: Final = ", ".join(column.name for column in BRIEF)
BRIEFLY: Final = f"SELECT {_BRIEF} FROM exchanges WHERE tenant = 'default'"
NEWEST: Final = "ORDER BY started_at DESC, exchange_id DESC LIMIT 51"
_PEOPLE: Final = "WHERE tenant = 'default' AND removed_at = 0 ORDER BY id DESC LIMIT 51"
_REPLAYS: Final = "SELECT * FROM replays WHERE tenant = 'default'"
_REPLAYS_NEWEST: Final = "ORDER BY requested_at DESC, replay_id DESC LIMIT 51"
_BATCH: Final = f"bat_{LARGEST:026}"
_ITEMS: Final = f"FROM batch_items WHERE tenant = 'default' AND batch_id = '{_BATCH}'"
_FORM: Final = "0" * 32
"""The key in the address of a form; one that nobody has sent."""


class Page(msgspec.Struct, frozen=True):
    """Another page, and the queries without which it cannot be made."""

    name: str
    path: str
    queries: tuple[str, ...]


def pages_of(exchange_id: str, editable: str) -> tuple[Page, ...]:
    """``exchange_id`` is looked at, ``editable`` is to be replayed by somebody who may."""
    return (*_lists(exchange_id), *_of_replays(exchange_id, editable), *_of_tenants())


def _lists(exchange_id: str) -> tuple[Page, ...]:
    return (
        Page(
            "an exchange",
            f"/exchanges/{exchange_id}",
            (
                f"SELECT * FROM exchanges WHERE tenant = 'default' AND exchange_id = '{exchange_id}'",
            ),
        ),
        Page(
            "agents",
            "/agents",
            (
                "SELECT * FROM agents WHERE tenant = 'default' "
                "ORDER BY registered_at DESC, agent_id DESC LIMIT 51",
            ),
        ),
        Page(
            "audit",
            "/audit?cursor=1000000000",
            (
                "SELECT seq, line FROM audit_records WHERE tenant = 'default' "
                "ORDER BY seq DESC LIMIT 51",
                "SELECT note FROM audit_heads WHERE tenant = 'default' ORDER BY size DESC LIMIT 1",
            ),
        ),
        Page(
            "recordings",
            "/recordings",
            (
                "SELECT * FROM captures WHERE tenant = 'default' "
                "ORDER BY created_at DESC, capture_id DESC LIMIT 51",
            ),
        ),
        Page(
            "batches",
            "/batches",
            (
                "SELECT * FROM batches WHERE tenant = 'default' "
                "ORDER BY created_at DESC, batch_id DESC LIMIT 51",
                "SELECT batch_id, state, outcome, verdict, code, count(*) FROM batch_items "
                "WHERE tenant = 'default' AND batch_id IN (SELECT batch_id FROM batches "
                "WHERE tenant = 'default' ORDER BY created_at DESC, batch_id DESC LIMIT 51) "
                "GROUP BY batch_id, state, outcome, verdict, code",
            ),
        ),
        Page(
            "one batch",
            f"/batches/{_BATCH}",
            (
                f"SELECT * FROM batches WHERE tenant = 'default' AND batch_id = '{_BATCH}'",
                f"SELECT state, outcome, verdict, code, count(*) {_ITEMS} "
                "GROUP BY state, outcome, verdict, code",
                f"SELECT verdict, cause, count(*), min(replay_id) {_ITEMS} AND cause <> '' "
                "GROUP BY verdict, cause ORDER BY 3 DESC LIMIT 50",
                f"SELECT * {_ITEMS} ORDER BY position LIMIT 51",
            ),
        ),
    )


def _of_replays(exchange_id: str, editable: str) -> tuple[Page, ...]:
    one = f"SELECT * FROM exchanges WHERE tenant = 'default' AND exchange_id = '{exchange_id}'"
    of_it = (
        f"(SELECT {{}} FROM exchanges WHERE tenant = 'default' AND exchange_id = '{exchange_id}')"
    )
    return (
        Page("replays", "/replays", (f"{_REPLAYS} {_REPLAYS_NEWEST}",)),
        Page(
            "replays, of a verdict and an app",
            "/replays?verdict=regressed&app=shop",
            (
                f"{_REPLAYS} AND verdict <> '' AND verdict = 'regressed' AND app = 'shop' "
                f"{_REPLAYS_NEWEST}",
            ),
        ),
        Page(
            "the form of a replay",
            f"/exchanges/{editable}/replay?form={_FORM}",
            (
                one.replace(exchange_id, editable),
                "SELECT * FROM agents WHERE tenant = 'default' AND app = (SELECT app FROM exchanges "
                f"WHERE tenant = 'default' AND exchange_id = '{editable}') "
                "ORDER BY registered_at DESC, agent_id DESC LIMIT 501",
            ),
        ),
        Page(
            "what is related",
            f"/exchanges/{exchange_id}/related",
            (
                one,
                *(
                    f"{BRIEFLY} AND {name} = {of_it.format(name)} ORDER BY started_at LIMIT 1000"
                    for name in ("trace_id", "correlation_id")
                ),
                f"{BRIEFLY} AND source_exchange_id <> '' AND source_exchange_id = '{exchange_id}'",
            ),
        ),
    )


def _of_tenants() -> tuple[Page, ...]:
    return (
        Page(
            "searches",
            "/searches",
            ("SELECT * FROM searches WHERE tenant = 'default' ORDER BY name LIMIT 51",),
        ),
        Page(
            "noise",
            "/noise",
            ("SELECT * FROM noise WHERE tenant = 'default' ORDER BY app, route_id",),
        ),
        Page(
            "people",
            "/people",
            (
                f"SELECT * FROM users {_PEOPLE}",
                "SELECT * FROM grants WHERE tenant = 'default' AND holder_type = 'user' "
                f"AND holder_id IN (SELECT id FROM users {_PEOPLE})",
            ),
        ),
        Page(
            "keys",
            "/keys",
            (
                "SELECT * FROM keys WHERE tenant = 'default' AND revoked_at = 0 "
                "ORDER BY id DESC LIMIT 51",
            ),
        ),
        Page(
            "environments",
            "/environments",
            (
                "SELECT * FROM environments WHERE tenant = 'default' ORDER BY name",
                "SELECT * FROM agents WHERE tenant = 'default' "
                "ORDER BY registered_at DESC, agent_id DESC LIMIT 501",
            ),
        ),
    )
