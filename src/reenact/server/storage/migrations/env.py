"""Run by Alembic. The connection, which is in a transaction, is the caller's."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
