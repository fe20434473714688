"""Policies of X07 as ours. What changes its meaning or cannot be carried over is said, never dropped.

Where the two differ, the stricter side is taken: a call that X07 would refuse is refused here, and
the built-in rules against secrets hold besides those that X07 names.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from reenact.errors import PolicyInvalid, UsageError
from reenact.format.canonical import digest
from reenact.policy.files import load_file, raise_first
from reenact.policy.index import INDEX, Index, PolicyEntry, SanitizerEntry, load_index
from reenact.policy.names import normalise
from reenact.policy.nearest import did_you_mean
from reenact.policy.places import FOLDER
from reenact.policy.rules import (
    DEFAULT,
    SANITIZER_SCHEMA,
    Budgets,
    Ignore,
    Mode,
    Pinned,
    Policy,
    Sanitizer,
)
from reenact.policy.x07_files import ARCH_INDEX, Arch, Member, load_arch
from reenact.policy.x07_notes import KINDS, SALT, WORLDS, Note, notes
from reenact.policy.x07_schema import ArchMode, ArchPolicy, ArchSanitizer, HttpKey

__all__ = ["ARCH", "Import", "has_arch_policy", "import_arch", "load_arch_policy"]

ARCH = "arch/rr"
"""The folder of an X07 project that has its policies."""

_MODES: dict[ArchMode, Mode] = {
    "off": "off",
    "record_v1": "record",
    "replay_v1": "replay",
    "record_missing_v1": "record_missing",
    "rewrite_v1": "rewrite",
}
_INDEX_FIELDS = {
    "modes": "defaults.record_modes_allowed",
    "worlds": "worlds_allowed",
    "kinds": "kinds_allowed",
    "operations": "ops_allowed",
}


@dataclass(frozen=True, slots=True)
class Import:
    """What there is to write below the folder ``.reenact``, and what to know about it.

    ``files`` are new; ``kept`` are there already, with the same contents. ``index`` is the whole
    new content of the index, and comes last: without it the files are not in force.
    """

    policies: tuple[str, ...]
    files: dict[str, bytes]
    kept: tuple[str, ...]
    index: bytes
    notes: tuple[Note, ...]


def import_arch(arch: Arch, root: Path) -> Import:
    """The policies of ``arch`` beside those of ``root``. Writes nothing.

    Raises :class:`UsageError` when an id or a file is taken, and :class:`PolicyInvalid` when the
    index that is there cannot be used.
    """
    present = load_index(root) or Index(policies=())
    _refuse_taken(arch, present)
    entries = [_entry(arch, member) for member in arch.members]
    policies = {
        _policy_path(one.policy.id): _policy(one.policy, one.sanitizer) for one in arch.members
    }
    sanitizers = {
        _sanitizer_path(one.sanitizer.id): _sanitizer(one.sanitizer) for one in arch.members
    }
    kept = tuple(path for path, raw in sanitizers.items() if _is_there(root, path, raw))
    files = {path: raw for path, raw in (policies | sanitizers).items() if path not in kept}
    _refuse_overwriting(root, files)
    return Import(
        policies=tuple(sorted(entry.id for entry in entries)),
        files={path: _written(raw) for path, raw in files.items()},
        kept=kept,
        index=_written(_merged(present, entries)),
        notes=tuple(notes(arch)),
    )


def has_arch_policy(root: Path, policy_id: str) -> bool:
    """Return whether the folder ``arch/rr`` of ``root`` can be read and has this policy."""
    arch, _ = load_arch(root / ARCH)
    return arch is not None and any(one.policy.id == policy_id for one in arch.members)


def load_arch_policy(root: Path, policy_id: str) -> Pinned | None:
    """Return a policy of the folder ``arch/rr`` as :func:`import_arch` would write it.

    None if ``root`` has no such folder. Raises :class:`PolicyInvalid` for a mistake in it and for
    an unknown id.
    """
    if not (root / ARCH / ARCH_INDEX).is_file():
        return None
    arch, findings = load_arch(root / ARCH)
    raise_first(findings)
    assert arch is not None  # otherwise there is an error among the findings
    index = f"{ARCH}/{ARCH_INDEX}"
    for member in arch.members:
        if member.policy.id == policy_id:
            entry = _entry(arch, member)
            return Pinned(
                policy=_policy_of(member.policy, member.sanitizer),
                digest=entry.digest,
                sanitizer=_sanitizer_of(member.sanitizer),
                modes=entry.modes,
                worlds=entry.worlds,
                kinds=entry.kinds,
                operations=entry.operations,
                path=f"{ARCH}/{Path(member.policy_file).relative_to(root / ARCH)}",
                index=index,
                index_fields=_INDEX_FIELDS,
            )
    known = [member.policy.id for member in arch.members]
    raise PolicyInvalid(
        f"{root / index} does not name the policy {policy_id}",
        place=index,
        hint=did_you_mean(policy_id, known),
    )


def _refuse_taken(arch: Arch, present: Index) -> None:
    taken = {entry.id for entry in present.policies} & {one.policy.id for one in arch.members}
    if taken:
        raise UsageError(
            f"{FOLDER}/{INDEX} has a policy {', '.join(sorted(taken))} already",
            hint="nothing was imported; take it out there, or give it another id in the X07 folder",
        )


def _is_there(root: Path, path: str, raw: dict[str, Any]) -> bool:
    """The same sanitizer may have come with an earlier import."""
    if not os.path.lexists(root / FOLDER / path):
        return False
    loaded, findings = load_file(root, path, Sanitizer, SANITIZER_SCHEMA)
    raise_first(findings)
    return loaded is not None and loaded.digest == digest(raw)


def _refuse_overwriting(root: Path, files: dict[str, dict[str, Any]]) -> None:
    for path in files:
        if os.path.lexists(root / FOLDER / path):
            raise UsageError(
                f"{root / FOLDER / path} is there already",
                hint="nothing was imported; move it away, or give it another id in the X07 folder",
            )


def _merged(present: Index, entries: list[PolicyEntry]) -> dict[str, Any]:
    policies = sorted((*present.policies, *entries), key=lambda entry: entry.id)
    said: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(present, policies=tuple(policies))
    )
    return {"schemaVersion": present.schema_version, **said}


def _written(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def _policy_path(policy_id: str) -> str:
    return f"policies/{policy_id}.policy.json"


def _sanitizer_path(sanitizer_id: str) -> str:
    return f"sanitizers/{sanitizer_id}.sanitize.json"


def _entry(arch: Arch, member: Member) -> PolicyEntry:
    reference, policy, sanitizer = member.reference, member.policy, member.sanitizer
    kinds = (ours for kind in reference.kinds_allowed for ours in (kind, KINDS.get(kind, kind)))
    worlds = (ours for world in reference.worlds_allowed for ours in WORLDS.get(world, (world,)))
    return PolicyEntry(
        id=policy.id,
        path=_policy_path(policy.id),
        digest=digest(_policy(policy, sanitizer)),
        sanitizer=SanitizerEntry(
            sanitizer.id, _sanitizer_path(sanitizer.id), digest(_sanitizer(sanitizer))
        ),
        modes=tuple(mode for name, mode in _MODES.items() if name in arch.index.modes),
        worlds=tuple(sorted(set(worlds))),
        kinds=tuple(sorted(set(kinds))),
        operations=tuple(sorted(set(reference.ops_allowed))),
    )


def _policy(policy: ArchPolicy, sanitizer: ArchSanitizer) -> dict[str, Any]:
    return _policy_of(policy, sanitizer).to_json()


def _policy_of(policy: ArchPolicy, sanitizer: ArchSanitizer) -> Policy:
    key = policy.http.key_v1 or HttpKey((), (), "lex_u8_v1", "sha256_v1")
    budgets = policy.budgets
    return Policy(
        id=policy.id,
        mode=_MODES[policy.mode_default],
        match="lookup" if policy.match_mode == "lookup_v1" else "transcript",
        strictness="strict",
        ignore=Ignore(headers=key.ignore_headers) if key.ignore_headers else DEFAULT.ignore,
        key_headers=key.include_headers,
        budgets=Budgets(
            cassette_bytes=budgets.max_cassette_bytes,
            entries=budgets.max_entries,
            request_bytes=budgets.max_req_bytes,
            response_bytes=budgets.max_resp_bytes,
            key_bytes=budgets.max_key_bytes,
        ),
        sanitizer=sanitizer.id,
    )


def _sanitizer_of(sanitizer: ArchSanitizer) -> Sanitizer:
    """Without the salt: in a file it would be a secret in the repository."""
    return Sanitizer(
        id=sanitizer.id,
        secret_names=tuple(filter(normalise, sanitizer.redact_headers)),
        salt_env=None if sanitizer.stable_pseudonym_salt is None else SALT,
    )


def _sanitizer(sanitizer: ArchSanitizer) -> dict[str, Any]:
    made = _sanitizer_of(sanitizer)
    said: dict[str, Any] = msgspec.to_builtins(made)
    return {"schemaVersion": SANITIZER_SCHEMA, **said, "profile": made.profile}
