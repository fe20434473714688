"""Migration of the database to the tables of this version.

The steps are in ``migrations/versions``, one file each, numbered without gaps. A released step is
never changed. All missing steps run in one exclusive transaction, so two servers that start
together migrate once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect, text

from reenact.errors import UsageError

__all__ = ["are_steps_due", "migrate", "newest"]

_FOLDER: Final = Path(__file__).with_name("migrations")


@cache
def newest() -> int:
    """The number of the last step."""
    return max(int(path.stem[1:5]) for path in _FOLDER.glob("versions/r[0-9]*.py"))


def migrate(connection: Connection) -> None:
    """Run the steps that are missing; for :meth:`Platform.define`. Raises :class:`UsageError` for a
    database of a later version."""
    target = newest()
    if _known_version(connection) >= target:
        return
    command.upgrade(_config(connection), f"{target:04}")
    connection.execute(text("UPDATE deployment SET schema_version = :now"), {"now": target})


def are_steps_due(connection: Connection) -> bool:
    """Would :func:`migrate` do something? Raises what that raises."""
    return _known_version(connection) < newest()


def _known_version(connection: Connection) -> int:
    found = _version(connection)
    if found > newest():
        raise UsageError(
            f"the database has schema version {found}, and this is version {newest()}",
            hint="use the reenact that made it, or a newer one",
        )
    return found


def _version(connection: Connection) -> int:
    """0 for a database in which there is nothing of ours."""
    if not inspect(connection).has_table("deployment"):
        return 0
    found = connection.scalar(text("SELECT schema_version FROM deployment"))
    if found is None and not connection.scalar(text("SELECT count(*) FROM tenants")):
        found = _prepared_version(connection)
    if found is None:
        raise UsageError(
            "the database has our tables, and nothing in them",
            hint="name an empty one, or restore this one from a copy",
        )
    return int(found)


def _prepared_version(connection: Connection) -> str | None:
    """Return the version of tables that were created before the first server start."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
