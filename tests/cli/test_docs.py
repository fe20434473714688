"""The documentation knows the commands there are, and the generated pages are current."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from reenact.cli._commands import TABLE

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = [name for name, _, _ in TABLE]


def _build(*words: str, columns: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "docs" / "build.py", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "", "COLUMNS": columns, "PYTHONPATH": ":".join(filter(None, sys.path))},
        timeout=60,
    )


def test_generated_pages_are_current_whatever_the_terminal() -> None:
    for columns in ("40", "300"):
        done = _build("--check", columns=columns)
        assert (done.returncode, done.stderr) == (0, "")


def test_reference_lists_the_commands() -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == NAMES


def test_no_page_names_a_command_that_is_not_there() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.name, word)
        for page in pages
        for word in re.findall(
            r"^\$ reenact ([a-z]+)\b", page.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert {(page, word) for page, word in named if word not in NAMES} == set()
