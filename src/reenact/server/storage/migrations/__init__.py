"""Migration steps between versions, run by Alembic."""
