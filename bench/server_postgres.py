"""A PostgreSQL to measure with: as it comes, with a cache that a small machine would give it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.server.databases import ROLE, Cluster, find_postgres

__all__ = ["ABSENT", "cluster", "make_database"]

ABSENT: Final = "not measured: there is no PostgreSQL here (on Debian, apt-get install postgresql)"

_SETTINGS: Final = {
    "max_connections": "200",
    "shared_buffers": "512MB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "4GB",
    "log_statement": "none",
}
"""A commit is on the disk when it is answered, as it is by default."""


@contextmanager
def cluster(kept: Path | None = None) -> Iterator[Cluster | None]:
    """One that runs until the block ends; None where there is no PostgreSQL. What is ``kept`` in a
    folder is used again, and stays."""
    bin = find_postgres()
    if bin is None:
        yield None
        return
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    # Not in the folder of the benchmark, which others than its owner cannot enter.
    folder = kept or Path(tempfile.mkdtemp(prefix="reenact-bench-pg-"))
    found = Cluster(bin, folder, _SETTINGS, kept is not None)
    try:
        found.start()
        yield found
    finally:
        found.stop()


def make_database(found: Cluster, name: str) -> str:
    """The address of a database of the server's role, made if it is not there."""
    if not found.sql(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
        found.sql(f"CREATE DATABASE {name} OWNER {ROLE}")
    return found.address(name)
