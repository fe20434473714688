"""A server whose PostgreSQL is behind PgBouncer, as the guide has it."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.server.databases import DATABASES, ROLE
from tests.server.deploy.guide import GUIDE
from tests.server.deploy.standing import find_program, listening
from tests.server.fire.conftest import staged
from tests.server.fire.counting import check
from tests.server.fire.running import Site, free_port

pytestmark = pytest.mark.slow

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={postgres}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
{said}
"""


@contextmanager
def pooled(folder: Path) -> Iterator[int]:
    """The port of a PgBouncer before the cluster of the tests, with what the guide says about it."""
    program = find_program("pgbouncer", "pgbouncer")
    (said,) = re.findall(r"PgBouncer: `([^`]+)`", GUIDE.read_text("utf-8"))
    cluster, port = DATABASES.cluster(), free_port()
    users, settings = folder / "users.txt", folder / "pgbouncer.ini"
    users.write_text(f'"{ROLE}" ""\n', "utf-8")
    settings.write_text(
        _SETTINGS.format(postgres=cluster.port, port=port, users=users, said=said), "utf-8"
    )
    for one in (users, settings):
        one.chmod(0o644)
    with subprocess.Popen(
        [program, str(settings)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        user=cluster.user,
        cwd="/",
    ) as process:
        try:
            listening(process, port)
            yield port
        finally:
            process.terminate()
            assert process.stderr is not None
            process.stderr.read()
            process.wait(60)


def test_a_pooler_that_keeps_sessions_together_may_stand_between(tmp_path: Path) -> None:
    cluster = DATABASES.cluster()
    folder = cluster.folder / tmp_path.name  # which the cluster's user can read
    folder.mkdir(mode=0o755)
    with DATABASES.on("postgresql"), pooled(folder) as port:
        address = DATABASES.postgres(tmp_path / "data")
        through = address.replace(f":{cluster.port}/", f":{port}/")
        assert through != address
        with staged(tmp_path, Site(tmp_path, through)) as scene:
            asked = {run: scene.operator.asked(scene.source, run) for run in ("one", "two")}
            assert check(scene, asked)
    with socket.socket() as sock, pytest.raises(ConnectionRefusedError):
        sock.connect(("127.0.0.1", port))
