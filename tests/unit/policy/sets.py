"""Small policy sets on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reenact.format.canonical import digest

POLICY: dict[str, Any] = {"schemaVersion": "reenact.policy@1", "id": "default"}
SANITIZER: dict[str, Any] = {"schemaVersion": "reenact.sanitizer@1", "id": "mine"}


def put(root: Path, relative: str, value: Any) -> Path:
    """Write ``value`` (bytes as they are, anything else as JSON) below ``.reenact``."""
    path = root / ".reenact" / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return path


def entry(policy: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The index entry that pins ``policy``."""
    name = policy["id"]
    return {"id": name, "path": f"policies/{name}.policy.json", "digest": digest(policy), **more}


def put_index(root: Path, *entries: dict[str, Any], **more: Any) -> Path:
    index = {"schemaVersion": "reenact.index@1", "policies": list(entries), **more}
    return put(root, "index.json", index)


def put_set(root: Path, policy: dict[str, Any], sanitizer: Any = None, **more: Any) -> None:
    """A policy, its sanitizer if there is one, and the index that pins both."""
    name = policy["id"]
    put(root, f"policies/{name}.policy.json", policy)
    if sanitizer is not None:
        path = "sanitizers/mine.sanitize.json"
        put(root, path, sanitizer)
        more["sanitizer"] = {"id": sanitizer["id"], "path": path, "digest": digest(sanitizer)}
    put_index(root, entry(policy, **more))
