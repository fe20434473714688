"""Which commands were never sent, and which exchanges have a recording, found without looking at all."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_MADE = (
    ("exchanges", "exchanges_by_recording", "recording_digest", "recording_digest <> ''"),
    ("commands", "commands_unsent", "agent_id", "sent_at = 0 AND done_at = 0"),
)


def upgrade() -> None:
    for table, name, column, where in _MADE:
        only = sa.text(where)
        op.create_index(name, table, ["tenant", column], sqlite_where=only, postgresql_where=only)
