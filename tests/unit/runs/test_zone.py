"""Which time zone a machine is in, and how another one gets into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reenact.runs.environment import Zone, find_zone

BERLIN = b"TZif2" + b"\x00" * 40 + b"anything\nCET-1CEST,M3.5.0,M10.5.0/3\n"


@pytest.fixture
def zones(tmp_path: Path) -> Path:
    folder = tmp_path / "zoneinfo"
    (folder / "Europe").mkdir(parents=True)
    (folder / "Europe" / "Berlin").write_bytes(BERLIN)
    return folder


def test_what_the_variable_says(zones: Path) -> None:
    environ = {"TZ": "Europe/Berlin", "TZDIR": str(zones)}
    assert find_zone(environ) == Zone("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3")
    assert find_zone({"TZ": "JST-9", "TZDIR": str(zones)}) == Zone("JST-9")
    assert find_zone({"TZ": ""}) == Zone("")


def test_what_the_machine_links_to(zones: Path, tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    link.symlink_to(zones / "Europe" / "Berlin")
    found = find_zone({}, link, tmp_path / "none")
    assert found == Zone("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3")


def test_what_the_machine_has_written_down(tmp_path: Path) -> None:
    copy, named = tmp_path / "localtime", tmp_path / "timezone"
    copy.write_bytes(BERLIN)
    named.write_text("Europe/Berlin\n")
    assert find_zone({}, copy, named).name == "Europe/Berlin"
    named.unlink()
    assert find_zone({}, copy, named) == Zone("CET-1CEST,M3.5.0,M10.5.0/3")


def test_a_machine_that_says_nothing_is_in_utc(tmp_path: Path) -> None:
    assert find_zone({}, tmp_path / "none", tmp_path / "none") == Zone("UTC")


@pytest.mark.parametrize("content", [b"", b"TZif", b"no zone\n", b"TZif1 without its end"])
def test_a_file_that_is_no_zone_has_no_rule(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "Odd").write_bytes(content)
    assert find_zone({"TZ": "Odd", "TZDIR": str(tmp_path)}) == Zone("Odd")


def test_where_the_name_is_not_known_the_rule_is_given(zones: Path, tmp_path: Path) -> None:
    zone = Zone("Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3")
    assert zone.variable({"TZDIR": str(zones)}) == "Europe/Berlin"
    assert zone.variable({"TZDIR": str(tmp_path / "none")}) == zone.rule
    assert Zone("UTC").variable({"TZDIR": str(tmp_path / "none")}) == "UTC"
