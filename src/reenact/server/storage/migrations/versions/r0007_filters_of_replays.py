"""Replays in the order of their list by whatever they are filtered by; those that have not ended apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_BY_TIME = ("requested_at", "replay_id")
_MADE = (
    ("replays_by_app", ("tenant", "app", *_BY_TIME), ""),
    ("replays_by_environment", ("tenant", "environment", *_BY_TIME), ""),
    ("replays_by_route", ("tenant", "route_id", *_BY_TIME), ""),
    ("replays_by_state", ("tenant", "state", *_BY_TIME), ""),
    ("replays_by_person", ("tenant", "requested_by", *_BY_TIME), ""),
    ("replays_by_verdict", ("tenant", "verdict", *_BY_TIME), "verdict <> ''"),
    ("replays_open", ("due_at", "state"), "state IN ('requested', 'delivered', 'running')"),
)


def upgrade() -> None:
    op.drop_index("replays_by_state", "replays")  # another one of this name is made below
    for name, columns, where in _MADE:
        only = sa.text(where) if where else None
        op.create_index(name, "replays", columns, sqlite_where=only, postgresql_where=only)
