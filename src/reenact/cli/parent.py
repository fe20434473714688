"""Where a recording comes from, in words."""

from __future__ import annotations

from typing import Any

from reenact.cli.render import escape_controls
from reenact.format.manifest import Manifest

__all__ = ["parent_json", "parent_line"]


def parent_line(manifest: Manifest) -> str:
    """``fork of cap_… at event 41``; empty for a recording that has no parent."""
    parent = manifest.parent
    if parent is None:
        return ""
    if manifest.mode == "replay":
        return f"replay of {escape_controls(parent.capture_id)}"
    return f"fork of {escape_controls(parent.capture_id)} at event {parent.seq}"


def parent_json(manifest: Manifest) -> dict[str, Any]:
    """The field ``parent``, where there is one."""
    parent = manifest.parent
    if parent is None:
        return {}
    return {"parent": {"captureId": parent.capture_id, "seq": parent.seq}}
