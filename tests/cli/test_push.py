"""``reenact push`` and ``pull``: what comes back is what was sent, verified on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.samples import record_run
from tests.server.house import House, running


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with running(tmp_path / "data") as house:
        monkeypatch.setenv("REENACT_SERVER", house.url)
        monkeypatch.setenv("REENACT_API_KEY", house.key("replayer"))
        yield house


def test_there_and_back(house: House, run: Run, tmp_path: Path) -> None:
    sent = record_run(tmp_path / "run")
    capture = run("push", sent, "--json").json()
    assert run("push", sent).out.startswith(f"{capture['captureId']}: 11 events, ")
    target = tmp_path / "received"
    ran = run("pull", capture["captureId"], "-o", target)
    assert (ran.code, ran.out) == (0, f"{target}: 11 events, verified\n")
    assert run("diff", sent, target).code == 0
    found = run("pull", capture["captureId"], "-o", tmp_path / "again", "--json").json()
    assert found["contentHash"] == capture["contentHash"]
    assert run("pull", capture["captureId"], "-o", target).code == 2


def test_a_capture_of_another_tenant_is_not_there(
    house: House, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = run("push", record_run(tmp_path / "run"), "--json").json()
    house.tenant("other")
    monkeypatch.setenv("REENACT_API_KEY", house.key("replayer", tenant="other"))
    ran = run("pull", capture["captureId"], "-o", tmp_path / "x", "--json")
    assert (ran.code, ran.json()["error"]["fields"]["problem"]) == (2, "not_found")
    assert not (tmp_path / "x").exists()


def test_who_may_only_look_cannot_push(
    house: House, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_API_KEY", house.key("viewer"))
    assert run("push", record_run(tmp_path / "run")).code == 4
    assert run("push", tmp_path / "nothing").code == 3
