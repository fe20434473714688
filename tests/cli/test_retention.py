"""``reenact retention``, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.server.house import House, running


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with running(tmp_path / "data") as house:
        monkeypatch.setenv("REENACT_SERVER", house.url)
        monkeypatch.setenv("REENACT_API_KEY", house.key("tenant admin"))
        yield house


def test_what_is_not_named_stays_as_it_is(house: House, run: Run) -> None:
    assert run("retention", "show").out == (
        "exchanges   for ever\nrecordings  for ever\ncaptures    for ever\n"
    )
    ran = run("retention", "set", "--exchanges", "90", "--recordings", "1")
    assert ran.code == 0
    assert ran.out == "exchanges   90 days\nrecordings  1 day\ncaptures    for ever\n"
    assert "does not come back" in ran.err
    ran = run("retention", "set", "--captures", "365", "--recordings", "0", "--json")
    assert ran.json() == {"exchanges": 90, "recordings": 0, "captures": 365}
    assert run("retention", "show", "--json").json() == ran.json()
    records = [one["details"] for one in house.records("retention.changed")]
    assert records[-1] == {"exchanges": "90", "recordings": "0", "captures": "365"}


@pytest.mark.usefixtures("house")
def test_what_is_kept_for_ever_frightens_nobody(run: Run) -> None:
    ran = run("retention", "set", "--exchanges", "0")
    assert (ran.code, ran.err) == (0, "")


def test_what_makes_no_sense_is_told(house: House, run: Run) -> None:
    ran = run("retention", "set")
    assert ran.code == 2
    assert ran.hint == "--exchanges DAYS, --recordings DAYS, --captures DAYS"
    for wrong in ("-1", "soon", "1.5", "36501"):
        assert run("retention", "set", f"--exchanges={wrong}").code == 2, wrong
    assert house.records("retention.changed") == []


def test_only_administrators_say_how_long(
    house: House, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REENACT_API_KEY", house.key("viewer"))
    for command in (["show"], ["set", "--exchanges", "1"]):
        ran = run("retention", *command)
        assert ran.code == 4
        assert "tenant:admin" in ran.err
