"""The tables of what is kept how long."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column

from reenact.server.storage.column_types import Whole, Words
from reenact.server.storage.tables import of_tenant

__all__ = ["ERASED", "RETENTION"]

RETENTION: Final = of_tenant(
    "retention",
    Column("exchanges", Whole, nullable=False),
    Column("recordings", Whole, nullable=False),
    Column("captures", Whole, nullable=False),
    Column("changed_at", Whole, nullable=False),
    Column("changed_by", Words, nullable=False),
    key=(),
)
"""At most one row per tenant. Days; 0 is for ever."""

ERASED: Final = of_tenant(
    "erased",
    Column("digest", Words, nullable=False),
    Column("at", Whole, nullable=False),
    key=("digest",),
)
"""Recordings that were erased before the exchanges that name them."""
