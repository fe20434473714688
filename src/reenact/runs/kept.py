"""What the last replay of a recording said, if it diverged: for ``reenact explain``.

One small file for each recording, under ``.reenact/reports/`` and never inside the recording. A replay
that does not diverge removes it. Where the folder cannot be written nothing is kept, and nothing is said.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reenact._version import __version__
from reenact.policy.paths import FOLDER
from reenact.store.files import replace_file

__all__ = ["KEEP", "forget", "keep", "kept_about", "last_kept", "surroundings"]

KEEP = "REENACT_REPORTS"
"""The variable that says ``off``: nothing is kept."""

_MOST = 100
_OFF = ("0", "no", "off", "false")


def keep(root: Path, recording: Path, report: Mapping[str, Any]) -> bool:
    """Keep ``report``, which has diverged, in place of an earlier one. False when it is not kept."""
    if os.environ.get(KEEP, "").lower() in _OFF:
        return False
    folder = _folder(root)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            ignored.write_text("*\n", encoding="utf-8")
        content = json.dumps({**report, "recording": str(recording.resolve())}) + "\n"
        replace_file(_place(root, recording), content.encode(), sync=False)
        _drop_oldest(folder)
    except (OSError, ValueError):
        return False
    return True


def forget(root: Path, recording: Path) -> None:
    """The recording has been replayed, and nothing differed."""
    if not _folder(root).is_dir():
        return
    with contextlib.suppress(OSError):
        _place(root, recording).unlink(missing_ok=True)


def kept_about(root: Path, recording: Path) -> Any:
    """The report; None when there is none."""
    return _read(_place(root, recording))


def last_kept(root: Path) -> Any:
    """That of the last replay that diverged; None when there is none."""
    found = _by_age(_folder(root))
    return _read(found[0]) if found else None


def surroundings() -> dict[str, str]:
    """What a report says of this machine, in the words of a manifest."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}-{platform.machine()}",
        "reenact": __version__,
    }


def _folder(root: Path) -> Path:
    return root / FOLDER / "reports"


def _place(root: Path, recording: Path) -> Path:
    path = recording.resolve()
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", path.stem)[:40].strip(".-") or "recording"
    return _folder(root) / f"{name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}.json"


def _read(place: Path) -> Any:
    try:
        return json.loads(place.read_bytes())
    except (OSError, ValueError):
        return None


def _by_age(folder: Path) -> list[Path]:
    """The newest first."""
    ages: list[tuple[int, str, Path]] = []
    for place in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            ages.append((place.stat().st_mtime_ns, place.name, place))
    return [place for _, _, place in sorted(ages, reverse=True)]


def _drop_oldest(folder: Path) -> None:
    for place in _by_age(folder)[_MOST:]:
        with contextlib.suppress(OSError):
            place.unlink()
