"""What is in the repository: the files, and the modules of the package."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = ROOT / "src"
_NOT_OURS = {".git", ".venv", ".cache", "__pycache__", "build", "dist"}


def modules() -> list[str]:
    """The dotted name of every importable module of the package; scripts that another program runs are
    none."""
    paths = (p.relative_to(SOURCE).with_suffix("") for p in (SOURCE / "reenact").rglob("*.py"))
    names = (".".join(p.parts).removesuffix(".__init__") for p in paths)
    return sorted(name for name in names if not name.endswith((".__main__", ".migrations.env")))


def files() -> list[Path]:
    """Every file git would keep; without git (an unpacked archive), every file that is not a cache."""
    if not (ROOT / ".git").exists():
        return sorted(_walk())
    listed = subprocess.run(
        ["git", "ls-files", "-z", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    return sorted(p for p in (ROOT / name for name in listed.split("\0") if name) if p.is_file())


def _walk() -> list[Path]:
    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in _NOT_OURS]
        found.extend(Path(folder) / name for name in names)
    return found
