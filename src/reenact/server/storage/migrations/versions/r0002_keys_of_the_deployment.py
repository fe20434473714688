"""The deployment knows which keys sign in its name: several servers have to have the same ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from reenact.server.storage.column_types import Words

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for name in ("audit_key", "commands_key"):
        op.add_column("deployment", sa.Column(name, Words(), nullable=False, server_default=""))
