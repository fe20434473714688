"""Steps from the tables of one version to those of the next; Alembic runs them."""
