"""Texts as they were last looked at: one file each, in the folder ``snapshots`` beside the test."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

__all__ = ["Snapshot", "snapshots_beside"]

Snapshot = Callable[..., None]
"""``snapshot("diff-changed", text)``; more words are texts that differ each time, with their names:
``snapshot("ls", text, {str(tmp_path): "FOLDER"})``. Moments and durations are taken for others of
their kind, unless with ``exact=True``."""

_WRITE = "SNAPSHOTS"
_CHANGING = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?": "TIME",
    r"(?<![\w.])\d+(\.\d+)? ?(ns|µs|us|ms|s|min)(?![\w/])": "SPAN",
}


def snapshots_beside(test: Path) -> Snapshot:
    """Compares with the files beside ``test``; ``SNAPSHOTS=write`` writes them anew."""

    def snapshot(
        name: str, text: str, changing: dict[str, str] | None = None, *, exact: bool = False
    ) -> None:
        file = test.parent / "snapshots" / f"{name}.txt"
        for found, said in sorted((changing or {}).items(), key=lambda one: -len(one[0])):
            text = text.replace(found, said)
        for pattern, said in () if exact else _CHANGING.items():
            text = re.sub(pattern, said, text)
        if os.environ.get(_WRITE) == "write":
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert file.exists(), f"no {file.name} yet: look at the text, then {_WRITE}=write"
        kept = file.read_text(encoding="utf-8")
        assert text == kept, "\n".join(
            unified_diff(kept.splitlines(), text.splitlines(), lineterm="")
        )

    return snapshot
