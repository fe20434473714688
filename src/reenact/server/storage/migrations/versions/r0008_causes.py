"""Why a replay differs from its source, in a word that is the same for all that differ there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from reenact.server.storage.column_types import Words

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    for table in ("replays", "batch_items"):
        op.add_column(table, sa.Column("cause", Words(), nullable=False, server_default=""))
