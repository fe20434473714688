"""The paths people type, and the mistakes that are easily made with them."""

from __future__ import annotations

import os
from pathlib import Path

from reenact.errors import UsageError
from reenact.store.directory.layout import EVENTS, MANIFEST

__all__ = ["LAST", "PACKED", "recording_at"]

LAST = "last"
PACKED = ".reenact"
_XZ = b"\xfd7zXZ\x00"


def recording_at(text: str) -> Path:
    """Where the recording lies; ``last`` is the last run of this project, and ``./last`` a file or
    folder of that name. Refuses what is only part of one, and what is packed."""
    if text == LAST:
        return _last()
    path = Path(text)
    if not path.is_file():
        return path
    if path.name in (EVENTS, MANIFEST) and (path.parent / EVENTS).exists():
        raise UsageError(
            f"{text} is a file inside a capture directory",
            hint=f"give the directory: {path.parent}",
        )
    if _start(path) == _XZ:
        raise UsageError(f"{text} is a packed recording", hint=f"reenact unpack {text}")
    return path


def _last() -> Path:
    from reenact.policy.paths import find_root
    from reenact.runs.options import last_run

    return last_run(find_root(Path.cwd(), os.environ))


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(_XZ))
