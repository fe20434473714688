"""Writing down what the files contain now: the digests in the index, and a first set of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reenact.errors import PolicyInvalid
from reenact.format.canonical import digest
from reenact.policy.files import load_file, raise_first
from reenact.policy.index import INDEX, INDEX_SCHEMA, Index, policy_file
from reenact.policy.nearest import did_you_mean
from reenact.policy.places import FOLDER
from reenact.policy.rules import POLICY_SCHEMA, SANITIZER_SCHEMA, Policy, Sanitizer

__all__ = ["Pin", "pinned_index", "starter"]

_DEFAULT_POLICY = {
    "schemaVersion": POLICY_SCHEMA,
    "id": "default",
    "mode": "replay",
    "match": "lane",
    "sanitizer": "default",
    "budgets": {"cassetteBytes": 64 << 20, "entries": 100_000},
}
_DEFAULT_SANITIZER = {
    "schemaVersion": SANITIZER_SCHEMA,
    "id": "default",
    "profile": "default",
    "secretNames": [],
    "declaredEnv": [],
}
_USUAL = ("ci", "local", "test")
"""The worlds of a new entry."""

_POLICY_PATH = "policies/default.policy.json"
_SANITIZER_PATH = "sanitizers/default.sanitize.json"


@dataclass(frozen=True, slots=True)
class Pin:
    """The pin of one file: what it was, empty if there was none, and what it is now."""

    id: str
    file: str
    before: str
    after: str


def pinned_index(root: Path, policy_id: str | None = None) -> tuple[bytes | None, list[Pin]]:
    """The content of the index with the digests of today, of one policy or of all.

    One that the index does not name yet gets an entry, if its file is ``policies/ID.policy.json``.
    Entries get sorted. The content is None when it need not change. Raises :class:`PolicyInvalid`
    when the index or a file that is to be pinned cannot be read: what is wrong is not worth pinning.
    """
    raw = _index_of(root, policy_id)
    entries = list(raw["policies"])
    ids = [entry["id"] for entry in entries]
    if policy_id is not None and policy_id not in ids:
        entries.append(_new_entry(root, policy_id, ids))
    pins: list[Pin] = []
    for entry in entries:
        if policy_id in (None, entry["id"]):
            pins.extend(_pin(root, entry))
    if ids == sorted(ids) and all(pin.before == pin.after for pin in pins):
        return None, pins
    raw["policies"] = sorted(entries, key=lambda entry: str(entry["id"]))
    return _written(raw), pins


def _index_of(root: Path, policy_id: str | None) -> dict[str, Any]:
    """As it is written; an empty one where there is none, for a policy that is to be its first."""
    if policy_id is not None and not (root / FOLDER / INDEX).exists():
        return {"schemaVersion": INDEX_SCHEMA, "policies": []}
    loaded, findings = load_file(root, INDEX, Index, INDEX_SCHEMA)
    raise_first(findings)
    return {} if loaded is None else dict(loaded.raw)


def _new_entry(root: Path, policy_id: str, ids: list[str]) -> dict[str, Any]:
    """Where it may be used is for a person to widen: not in production, and not in other modes than
    the index allows by default."""
    file = policy_file(root, policy_id)
    if file is None:
        raise PolicyInvalid(
            f"there is no policy {policy_id[:128]} in {FOLDER}/{INDEX}",
            place=f"{FOLDER}/{INDEX}",
            hint=did_you_mean(policy_id, ids),
        )
    policy, findings = load_file(root, file, Policy, POLICY_SCHEMA)
    raise_first(findings)
    if policy is not None and policy.value.id != policy_id:
        raise PolicyInvalid(
            f"{policy.file} $.id: its id is {policy.value.id}, and its name says {policy_id}",
            place=f"{policy.file} $.id",
            hint="make the two the same",
        )
    entry: dict[str, Any] = {"id": policy_id, "path": file, "digest": ""}
    if policy is not None and policy.value.sanitizer is not None:
        name = policy.value.sanitizer
        entry["sanitizer"] = {"id": name, "path": f"sanitizers/{name}.sanitize.json", "digest": ""}
    return {**entry, "worlds": list(_USUAL)}


def _pin(root: Path, entry: dict[str, Any]) -> Iterator[Pin]:
    """Change the digests in ``entry``."""
    policy, findings = load_file(root, entry["path"], Policy, POLICY_SCHEMA)
    raise_first(findings)
    if policy is not None:
        yield _changed(entry, policy.file, policy.digest)
    under = entry.get("sanitizer")
    if under is not None:
        sanitizer, findings = load_file(root, under["path"], Sanitizer, SANITIZER_SCHEMA)
        raise_first(findings)
        if sanitizer is not None:
            yield _changed(under, sanitizer.file, sanitizer.digest)


def _changed(entry: dict[str, Any], file: str, after: str) -> Pin:
    before = str(entry.get("digest", ""))
    entry["digest"] = after
    return Pin(str(entry["id"]), file, before, after)


def _written(value: Any) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def starter() -> dict[str, bytes]:
    """A working set: paths below the folder ``.reenact``, and contents. The index comes last."""
    entry = {
        "id": "default",
        "path": _POLICY_PATH,
        "digest": digest(_DEFAULT_POLICY),
        "sanitizer": {
            "id": "default",
            "path": _SANITIZER_PATH,
            "digest": digest(_DEFAULT_SANITIZER),
        },
        "worlds": list(_USUAL),
    }
    return {
        _POLICY_PATH: _written(_DEFAULT_POLICY),
        _SANITIZER_PATH: _written(_DEFAULT_SANITIZER),
        INDEX: _written({"schemaVersion": INDEX_SCHEMA, "policies": [entry]}),
    }
