"""Recordings named on the command line: their paths, parents and replay reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reenact.cli._output import escape_controls
from reenact.errors import UsageError
from reenact.store.files import EVENTS, MANIFEST

if TYPE_CHECKING:
    from reenact.engine.divergence.model import Divergence
    from reenact.format.manifest import Manifest

__all__ = [
    "LAST",
    "PACKED",
    "divergences_in",
    "manifest_json",
    "parent_json",
    "parent_line",
    "recording_at",
    "written_json",
]

LAST = "last"
PACKED = ".reenact"
_XZ = b"\xfd7zXZ\x00"


def recording_at(text: str) -> Path:
    """Return the path of a recording. ``last`` is the last run of this project; ``./last`` is a path.

    Raises :class:`UsageError` for a file inside a capture directory and for a packed recording.
    """
    if text == LAST:
        from reenact.policy.paths import find_root
        from reenact.runs.options import last_run

        return last_run(find_root(Path.cwd(), os.environ))
    path = Path(text)
    if not path.is_file():
        return path
    if path.name in (EVENTS, MANIFEST) and (path.parent / EVENTS).exists():
        raise UsageError(
            f"{text} is a file inside a capture directory",
            hint=f"give the directory: {path.parent}",
        )
    with path.open("rb") as file:
        if file.read(len(_XZ)) == _XZ:
            raise UsageError(f"{text} is a packed recording", hint=f"reenact unpack {text}")
    return path


def divergences_in(report: Path) -> list[Divergence]:
    """Return the divergences in a file that ``--report`` wrote. Raises :class:`UsageError`."""
    from reenact.engine.divergence.model import Divergence

    try:
        listed = json.loads(report.read_bytes())["divergences"]
    except OSError as error:
        raise _invalid_report(report, error.strerror or "cannot be read") from None
    except ValueError:
        raise _invalid_report(report, "it is not JSON") from None
    except (KeyError, TypeError):
        raise _invalid_report(report, "it has no list of divergences") from None
    return [Divergence.from_json(one) for one in listed]


def _invalid_report(report: Path, why: str) -> UsageError:
    return UsageError(
        f"{report} is not a report: {why}", hint="reenact run --replay … --report FILE writes one"
    )


def parent_line(manifest: Manifest) -> str:
    """Return ``fork of cap_… at event 41``; empty for a recording without a parent."""
    parent = manifest.parent
    if parent is None:
        return ""
    if manifest.mode == "replay":
        return f"replay of {escape_controls(parent.capture_id)}"
    return f"fork of {escape_controls(parent.capture_id)} at event {parent.seq}"


def parent_json(manifest: Manifest) -> dict[str, Any]:
    """Return the field ``parent``; empty for a recording without a parent."""
    parent = manifest.parent
    if parent is None:
        return {}
    return {"parent": {"captureId": parent.capture_id, "seq": parent.seq}}


def manifest_json(manifest: Manifest) -> dict[str, Any]:
    """Return the facts that commands print about a recording that they wrote."""
    return {
        "events": manifest.event_count,
        "format": manifest.format.version,
        "status": manifest.status,
        "contentHash": manifest.integrity.content_hash,
    }


def written_json(target: Path, manifest: Manifest) -> dict[str, Any]:
    """Return what commands print about a recording that they packed, unpacked or fetched."""
    return {
        "path": str(target),
        "events": manifest.event_count,
        "contentHash": manifest.integrity.content_hash,
    }
