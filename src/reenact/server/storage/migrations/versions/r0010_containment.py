"""What replays in an app refuse, and which environment variables a replay has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from reenact.server.storage.column_types import Words

revision = "0010"
down_revision = "0009"

_ADDED = (
    ("agents", "containment", "{}"),
    ("replays", "containment", "{}"),
    ("replays", "environment_variables", "recorded"),
)


def upgrade() -> None:
    for table, name, default in _ADDED:
        op.add_column(table, sa.Column(name, Words(), nullable=False, server_default=default))
