"""The pictures in the README and the guides: each is there, is shown somewhere, and is drawn by the
script or taken by a test."""

from __future__ import annotations

import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from tests.browser.pictures import MOST, SIZES
from tests.meta.tree import ROOT, files

FOLDER = ROOT / "docs" / "pictures"
_SHOWN = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"\s]+)\"")


def _script() -> Any:
    spec = spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _shown() -> dict[Path, Path]:
    """Pictures by where they lie, and the page that shows them."""
    found: dict[Path, Path] = {}
    for page in (path for path in files() if path.suffix == ".md"):
        for match in _SHOWN.finditer(page.read_text(encoding="utf-8")):
            place = match[1] or match[2]
            if "://" not in place:
                found[Path(os.path.normpath(page.parent / place))] = page
    return found


def test_every_picture_that_is_shown_is_there() -> None:
    shown = _shown()
    assert shown
    assert [f"{page}: {path}" for path, page in shown.items() if not path.is_file()] == []


def test_every_picture_is_shown_and_is_drawn_or_taken() -> None:
    there = {path.name for path in FOLDER.iterdir()}
    assert there == {path.name for path in _shown() if path.parent == FOLDER}
    assert there == _script().files() | {f"{name}.png" for name in SIZES}


def test_pictures_are_small_and_tell_nothing_of_the_machine() -> None:
    assert [path.name for path in FOLDER.iterdir() if path.stat().st_size > MOST] == []
    drawn = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")]
    assert drawn
    for text in drawn:
        assert re.search(r"/(tmp|home|root|usr)/|sk-|a8f3K2m9|<script|Traceback", text) is None
