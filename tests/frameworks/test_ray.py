"""``reenact regress --engine ray``, on a real Ray of this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reenact.store.pack import pack
from tests.cli.remote import bucket, record, settings, store, upload
from tests.frameworks.environments import ROOT, build
from tests.frameworks.servers import available
from tests.server.house import running

PROGRAM = Path(__file__).with_name("on_ray.py")
_PATIENCE = 600


@pytest.fixture
def afar(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of somebody with three recordings on a server, and two of them in a store."""
    with running(tmp_path / "data") as house, store() as address, bucket(address) as s3:
        client = house.client(house.key("replayer"))
        for number in (0, 1, 9):
            packed = tmp_path / f"{number}.reenact"
            pack(record(tmp_path / f"recorded/{number}", number, tail=""), packed)
            kind = {"Content-Type": "application/octet-stream"}
            client.post("/api/v1/captures", content=packed.read_bytes(), headers=kind)
        upload(s3, tmp_path / "recorded/0", "runs/0")
        upload(s3, tmp_path / "1.reenact", "runs/1.reenact")
        shutil.rmtree(tmp_path / "recorded")
        yield {
            "REENACT_SERVER": house.url,
            "REENACT_API_KEY": house.key("replayer"),
            **settings(address, "-".join(["planted", "secret"])),
        }


def _check_afar(found: dict[str, Any]) -> None:
    """They were got on the machine of the worker, with keys that it had from nobody else."""
    assert found["leaks"] == []
    assert found["counts"]["ok"] == 2, found
    told = {
        (group["status"], group["cause"]): [name.rpartition("/")[2] for name in group["recordings"]]
        for group in found["groups"]
    }
    diverged = "event_payload_mismatch network ask $.request.question"
    assert sorted(told) == [("diverged", diverged), ("failed", "RuntimeError: I know …")]
    assert "1.reenact" in told["diverged", diverged]
    (tells,) = told["failed", "RuntimeError: I know …"]
    assert tells.startswith("capture:cap_")


@pytest.mark.slow
def test_it_finds_what_is_found_here(tmp_path: Path, afar: dict[str, str]) -> None:
    with available():
        python = build("ray")
    path = os.pathsep.join(map(str, (tmp_path, ROOT / "src")))
    done = subprocess.run(
        [python, PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "RAY_USAGE_STATS_ENABLED": "0"},
        input=json.dumps(afar),
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    _check_afar(found["afar"])
    for name in ("REENACT_API_KEY", "AWS_SECRET_ACCESS_KEY"):
        assert afar[name] not in done.stdout + done.stderr
    assert found["far"]["counts"] == {
        "ok": 2, "diverged": 1, "failed": 1, "unreadable": 0, "timeout": 0, "known": 0,
    }  # fmt: skip
    assert found["far"] == found["near"] == found["resumed"]
    assert (found["stopped"]["ended"], found["stopped"]["notRun"]) == ("stopped", 2)
    assert found["program"]["counts"]["ok"] == 1, found["program"]
    code, _, said = found["nobody"]
    assert code == 2
    assert "agentry:nobody cannot be loaded" in said
    (lost, missing) = sorted(found["lost"])
    assert lost[:3] == ["runs/0", "failed", "its worker was lost"]
    assert missing[:3] == ["runs/nowhere", "unreadable", "not on the machine of the worker"]
    assert "ray job submit --working-dir" in missing[3]
