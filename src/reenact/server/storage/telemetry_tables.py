"""The tables of traces that came in and are not exchanges yet, and of exchanges that are to go out."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, LargeBinary

from reenact.server.storage.column_types import Whole, Words
from reenact.server.storage.tables import of_tenant

__all__ = ["EXPORTS", "SPANS"]

SPANS: Final = of_tenant(
    "spans",
    Column("app", Words, nullable=False),
    Column("environment", Words, nullable=False),
    Column("trace_id", Words, nullable=False),
    Column("span_id", Words, nullable=False),
    Column("received_at", Whole, nullable=False),
    Column("document", LargeBinary, nullable=False),
    key=("app", "environment", "trace_id", "span_id"),
)
"""Spans wait here until no more of their trace come. ``document`` is JSON, redacted."""

EXPORTS: Final = of_tenant(
    "exports",
    Column("exchange_id", Words, nullable=False),
    Column("queued_at", Whole, nullable=False),
    Column("held_until", Whole, nullable=False),
    key=("exchange_id",),
    extra=(Index("exports_by_time", "tenant", "queued_at", "exchange_id"),),
)
"""Exchanges that have not been sent as traces yet. Whoever sends some holds them meanwhile."""
