"""Entry points of installed packages, found in the folders of ``sys.path``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from reenact import _plugins
from reenact._plugins import BOUNDARIES, LENSES, EntryPoint, entry_points


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of ``sys.path``."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def _install(site: Path, folder: str, text: str) -> None:
    (site / folder).mkdir(parents=True)
    (site / folder / "entry_points.txt").write_text(text, "utf-8")


def test_groups_of_other_programs_are_ignored(site: Path) -> None:
    _install(
        site,
        "A_b-1.0.dist-info",
        "[console_scripts]\na = a:main\n\n# note\n[reenact.lenses]\n; note\nx.chat = a:LENS [more]\n"
        "[reenact.boundaries]\na.client=a.b:patches\n[pytest11]\nc = c\n",
    )
    assert entry_points(LENSES) == [EntryPoint(LENSES, "x.chat", "a:LENS", "a-b 1.0")]
    assert entry_points(BOUNDARIES) == [
        EntryPoint(BOUNDARIES, "a.client", "a.b:patches", "a-b 1.0")
    ]


def test_first_installed_version_counts(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = tmp_path / "later"
    monkeypatch.setattr(sys, "path", [str(site), str(later)])
    _install(site, "one-2.0.dist-info", "[reenact.lenses]\nx.chat = two:LENS\n")
    _install(later, "one-1.0-py3.11.egg-info", "[reenact.lenses]\nx.chat = one:LENS\n")
    _install(later, "other-3.dist-info", "[reenact.lenses]\ny.chat = other:LENS\n")
    found = [(one.value, one.package) for one in entry_points(LENSES)]
    assert found == [("two:LENS", "one 2.0"), ("other:LENS", "other 3")]


def test_package_that_is_installed_later_is_found(site: Path) -> None:
    assert entry_points(LENSES) == []
    _install(site, "one-2.0.dist-info", "[reenact.lenses]\nx.chat = two:LENS\n")
    assert [one.name for one in entry_points(LENSES)] == ["x.chat"]


def test_unusable_folders_of_the_path_are_skipped(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = site / "archive.zip"
    archive.write_bytes(b"PK")
    folders: list[Any] = [str(site / "missing"), str(archive), b"bytes", None, str(site)]
    monkeypatch.setattr(sys, "path", folders)
    _install(site, "one-2.0.dist-info", "[reenact.lenses]\nx.chat = two:LENS\n")
    assert [one.name for one in entry_points(LENSES)] == ["x.chat"]


def test_preset_entry_points_replace_the_search(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_plugins, "_preset", None)
    _install(site, "one-2.0.dist-info", "[reenact.lenses]\nx.chat = two:LENS\n")
    given = EntryPoint(LENSES, "z.chat", "z:LENS", "z 1")
    _plugins.preset([given])
    assert entry_points(LENSES) == [given]


def test_attributes_of_attributes_are_loaded() -> None:
    point = EntryPoint(LENSES, "x", "os:path.join", "one 2.0")
    assert point.load() is __import__("os").path.join
