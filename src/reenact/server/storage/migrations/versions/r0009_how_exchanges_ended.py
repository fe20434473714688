"""The HTTP status of exchanges and replays, and how replayed exchanges ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from reenact.server.storage.column_types import Whole, Words

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    for table in ("exchanges", "replays", "batch_items"):
        op.add_column(table, sa.Column("http_status", Whole, nullable=False, server_default="0"))
    for table in ("replays", "batch_items"):
        op.add_column(table, sa.Column("ending", Words(), nullable=False, server_default=""))
