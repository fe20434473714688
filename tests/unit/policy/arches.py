"""A small X07 folder ``arch/rr`` on disk: the smallest example of its documentation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reenact.policy.redaction.placeholder import PLACEHOLDER

REFERENCE: dict[str, Any] = {
    "id": "smoke_rr_v1",
    "policy_path": "arch/rr/policies/smoke_rr_v1.policy.json",
    "sanitize_id": "sanitize_none_v1",
    "sanitize_path": "arch/rr/sanitizers/sanitize_none_v1.sanitize.json",
    "worlds_allowed": ["run-os", "run-os-sandboxed", "solve-full", "solve-rr"],
    "kinds_allowed": ["rr"],
    "ops_allowed": ["std.rr.fetch_v1", "std.stream.src.rr_send_v1"],
    "cassette_brand": "std.rr.cassette_v1",
}
ARCH_POLICY: dict[str, Any] = {
    "schema_version": "x07.arch.rr.policy@0.1.0",
    "id": "smoke_rr_v1",
    "v": 1,
    "mode_default": "replay_v1",
    "match_mode": "lookup_v1",
    "budgets": {
        "max_cassette_bytes": 1048576,
        "max_entries": 100,
        "max_req_bytes": 1024,
        "max_resp_bytes": 131072,
        "max_key_bytes": 256,
    },
}
ARCH_SANITIZER: dict[str, Any] = {
    "schema_version": "x07.arch.rr.sanitize@0.1.0",
    "id": "sanitize_none_v1",
    "v": 1,
    "redact_headers": [],
    "redact_token": PLACEHOLDER,
}


def arch_index(*references: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"schema_version": "x07.arch.rr.index@0.1.0", "policies": list(references), **more}


def put_arch(
    root: Path,
    *,
    index: Any = None,
    policy: Any = ARCH_POLICY,
    sanitizer: Any = ARCH_SANITIZER,
) -> Path:
    """The smallest folder, with one file or another replaced."""
    folder = root / "arch" / "rr"
    files = {
        "index.x07rr.json": arch_index(REFERENCE) if index is None else index,
        "policies/smoke_rr_v1.policy.json": policy,
        "sanitizers/sanitize_none_v1.sanitize.json": sanitizer,
    }
    for name, value in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return folder
