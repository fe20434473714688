"""The tables of batches and saved searches."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, LargeBinary

from reenact.server.storage.column_types import Whole, Words
from reenact.server.storage.tables import of_tenant, only

__all__ = ["ASKED", "BATCHES", "BATCH_ITEMS", "SEARCHES"]

ASKED: Final = "state = 'asked'"
"""Few items are so at a time, and have an index of their own."""

BATCHES: Final = of_tenant(
    "batches",
    Column("batch_id", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("wanted", LargeBinary, nullable=False),
    Column("plan", LargeBinary, nullable=False),
    Column("concurrency", Whole, nullable=False),
    Column("per_minute", Whole, nullable=False),
    Column("actor", Words, nullable=False),
    Column("actor_name", Words, nullable=False),
    Column("requested_by", Words, nullable=False),
    Column("requested_id", Words, nullable=False),
    Column("created_at", Whole, nullable=False),
    Column("confirmed_at", Whole, nullable=False),
    Column("ended_at", Whole, nullable=False),
    Column("hindered", Words, nullable=False),
    key=("batch_id",),
    extra=(
        Index("batches_by_time", "tenant", "created_at", "batch_id"),
        Index("batches_by_state", "state", "batch_id"),
    ),
)
"""``wanted`` is what was asked for, ``plan`` what was counted, both JSON, compressed; ``actor`` whoever
confirmed it, as JSON, and so orders its replays, empty before; ``requested_id`` who made the plan;
``hindered`` the code of what it waits for."""

BATCH_ITEMS: Final = of_tenant(
    "batch_items",
    Column("batch_id", Words, nullable=False),
    Column("exchange_id", Words, nullable=False),
    Column("position", Whole, nullable=False),
    Column("app", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("route_id", Words, nullable=False),
    Column("state", Words, nullable=False),
    Column("replay_id", Words, nullable=False),
    Column("agent_id", Words, nullable=False),
    Column("asked_at", Whole, nullable=False),
    Column("outcome", Words, nullable=False),
    Column("code", Words, nullable=False),
    Column("message", Words, nullable=False),
    Column("verdict", Words, nullable=False),
    Column("cause", Words, nullable=False),
    Column("ending", Words, nullable=False),
    Column("http_status", Whole, nullable=False),
    key=("batch_id", "exchange_id"),
    extra=(
        Index("batch_items_in_order", "tenant", "batch_id", "position", unique=True),
        Index("batch_items_by_state", "tenant", "batch_id", "state", "position"),
        Index("batch_items_by_agent", "tenant", "agent_id", "asked_at"),
        Index("batch_items_by_time", "tenant", "asked_at"),
        only("batch_items_asked", ASKED, "agent_id"),
    ),
)
"""One exchange of a batch. ``state`` is ``waiting``, ``asked`` (it has a replay), ``ended`` (that has
ended, with ``outcome``, ``verdict``, ``ending`` and ``http_status``), ``refused``, ``skipped`` (never tried) or ``cancelled``."""

SEARCHES: Final = of_tenant(
    "searches",
    Column("name", Words, nullable=False),
    Column("filters", Words, nullable=False),
    Column("changed_at", Whole, nullable=False),
    Column("changed_by", Words, nullable=False),
    Column("changed_name", Words, nullable=False),
    key=("name",),
)
"""``filters`` is JSON; ``changed_by`` is an id, ``changed_name`` what people call it."""
