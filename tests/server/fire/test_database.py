"""A PostgreSQL that has no room left, or is gone for a while: the servers say so and come back, and
nothing is lost or run twice."""

from __future__ import annotations

import os
import pwd
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from reenact.exchange.model import Body
from tests.server.databases import DATABASES, QUICK, ROLE, Cluster
from tests.server.fire.conftest import Scene, staged
from tests.server.fire.counting import check
from tests.server.fire.filling import Disk, small_disk
from tests.server.fire.running import Site, until
from tests.server.traffic.puppet import exchange, lines, start

pytestmark = pytest.mark.slow


@contextmanager
def _space(cluster: Cluster, disk: Disk) -> Iterator[str]:
    """A room of the cluster's on ``disk``."""
    folder = disk.folder / "space"
    folder.mkdir()
    owner = pwd.getpwnam(cluster.user) if cluster.user else pwd.getpwuid(os.geteuid())
    os.chown(folder, owner.pw_uid, owner.pw_gid)
    cluster.sql(f"CREATE TABLESPACE small OWNER {ROLE} LOCATION '{folder}'")
    try:
        yield "small"
    finally:
        cluster.sql("DROP TABLESPACE small")


def _large(scene: Scene, name: str) -> httpx.Response:
    """An exchange that fits into no page that the database has already."""
    noise = random.Random(name).randbytes(200_000).hex()
    sent = exchange(
        name, start=msgspec.structs.replace(start(), body=Body(type="text", text=noise))
    )
    headers = {
        "Authorization": f"Bearer {scene.keys.agent}",
        "Content-Type": "application/x-ndjson",
    }
    return scene.operator.http.post("/api/v1/ingest", content=lines(sent), headers=headers)


def test_a_database_without_room_takes_everything_later(tmp_path: Path) -> None:
    cluster = DATABASES.cluster()
    with (
        small_disk(cluster.folder / tmp_path.name, "40m") as disk,
        _space(cluster, disk) as space,
        DATABASES.on("postgresql"),
    ):
        site = Site(tmp_path, DATABASES.postgres(tmp_path / "data", f"TABLESPACE {space}"))
        with staged(tmp_path, site) as scene:
            asked = {"before": scene.operator.asked(scene.source, "before")}
            disk.fill()
            full = _large(scene, "large")
            assert (full.status_code, full.json()["error"]["code"]) == (507, "storage_full")
            assert full.headers["Retry-After"].isdigit()
            # Pages that are there already have room for some of these; 503 is an answer where
            # another connection is needed, which PostgreSQL does not give without room.
            answers = {
                run: scene.operator.try_once(scene.source, run)
                for run in (f"full-{number}" for number in range(40))
            }
            assert {one.status_code for one in answers.values()} <= {202, 503, 507}
            assert 507 in {one.status_code for one in answers.values()}
            scene.server.kill()
            disk.free()  # without any room PostgreSQL may let nobody in who was not there before
            scene.server.serve()
            asked |= {run: scene.operator.asked(scene.source, run) for run in answers}
            for run, answer in answers.items():
                if answer.status_code == 202:
                    assert asked[run] == answer.json()["replayId"]
            assert check(scene, asked)
            assert _large(scene, "large").status_code == 200


@contextmanager
def _own_cluster() -> Iterator[Cluster]:
    """One that can be killed. What it has said is kept is kept, unlike in that of other tests."""
    bin = DATABASES.cluster().bin
    cluster = Cluster(
        bin,
        Path(tempfile.mkdtemp(prefix="reenact-pg-")),
        {**QUICK, "synchronous_commit": "on"},
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_a_database_that_is_killed_costs_nothing_but_time(tmp_path: Path) -> None:
    with _own_cluster() as cluster:
        cluster.sql(f"CREATE DATABASE shop OWNER {ROLE}")
        with staged(tmp_path, Site(tmp_path, cluster.address("shop"))) as scene:
            asked = {}
            for life in range(3):
                run = f"before-{life}"
                asked[run] = scene.operator.asked(scene.source, run)  # it may be anywhere by now
                cluster.crash()
                away = scene.operator.try_once(scene.source, f"during-{life}")
                assert (away.status_code, away.json()["error"]["code"]) == (503, "unavailable")
                assert scene.operator.http.get("/readyz").status_code == 503
                assert scene.operator.http.get("/healthz").status_code == 200
                scene.app.order(f"away-{life}")
                cluster.start()
                run = f"during-{life}"
                asked[run] = scene.operator.asked(scene.source, run)
            until(lambda: scene.operator.http.get("/readyz").status_code == 200)
            assert check(scene, asked)
