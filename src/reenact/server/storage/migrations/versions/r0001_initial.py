"""Make all tables and indexes of a new database.

No version has been released, so this step creates the tables as they are defined. Before the second
step is added, this one gets the statements of the released version: a test reminds of that.
"""

from __future__ import annotations

from alembic import op

from reenact.server.storage.tables import METADATA

revision = "0001"
down_revision = None


def upgrade() -> None:
    METADATA.create_all(op.get_bind(), checkfirst=False)
