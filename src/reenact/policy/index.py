"""The policy index: available policies, pinned to the digests of their files, and where each is allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from reenact.errors import PolicyInvalid, did_you_mean, nearest
from reenact.format.canonical import digest
from reenact.format.decoders import build_decoders
from reenact.policy.files import Finding, Loaded, load_file, raise_first
from reenact.policy.model import (
    DEFAULT,
    ID_PATTERN,
    POLICY_SCHEMA,
    SANITIZER_SCHEMA,
    Digest,
    Glob,
    Id,
    Kind,
    Mode,
    Pinned,
    Policy,
    RelativePath,
    Sanitizer,
    World,
)
from reenact.policy.paths import FOLDER, INDEX, WORLDS, has_policies
from reenact.policy.validation import policy_findings

__all__ = [
    "INDEX",
    "INDEX_SCHEMA",
    "Defaults",
    "Index",
    "Pin",
    "PolicyEntry",
    "SanitizerEntry",
    "check_all",
    "load_index",
    "load_policy",
    "named_worlds",
    "pinned_index",
    "policy_file",
    "starter",
]

INDEX_SCHEMA = "reenact.index@1"

_LONGEST_ID = 128


class _Part(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Base class with the encoding rules of the index."""


class SanitizerEntry(_Part, frozen=True):
    """A sanitizer file, pinned to its contents."""

    id: Annotated[Id, Meta(description="the id in the file")]
    path: Annotated[RelativePath, Meta(description="the file, relative to .reenact")]
    digest: Annotated[Digest, Meta(description="what the file contained when it was pinned")] = ""


class PolicyEntry(_Part, frozen=True):
    """A policy file, pinned to its contents, and where it may be used. A list left out allows all."""

    id: Annotated[Id, Meta(description="the id in the file; entries are sorted by it")]
    path: Annotated[RelativePath, Meta(description="the file, relative to .reenact")]
    digest: Annotated[Digest, Meta(description="what the file contained when it was pinned")] = ""
    sanitizer: Annotated[
        SanitizerEntry | None, Meta(description="the sanitizer that the policy names")
    ] = None
    modes: Annotated[tuple[Mode, ...] | None, Meta(description="modes in which it is allowed")] = (
        None
    )
    worlds: Annotated[
        tuple[World, ...] | None, Meta(description="worlds in which it is allowed")
    ] = None
    kinds: Annotated[tuple[Kind, ...] | None, Meta(description="kinds of calls that it allows")] = (
        None
    )
    operations: Annotated[
        tuple[Glob, ...] | None, Meta(description="operations that it allows")
    ] = None


class Defaults(_Part, frozen=True):
    """Default settings of policies whose entry omits them."""

    modes: Annotated[tuple[Mode, ...] | None, Meta(description="modes in which it is allowed")] = (
        None
    )


class Index(_Part, frozen=True, kw_only=True):
    """The list of policies. Only listed policies and the built-in default can be used."""

    schema_version: Annotated[
        Literal["reenact.index@1"], Meta(description="which kind of file this is")
    ] = "reenact.index@1"
    policies: Annotated[tuple[PolicyEntry, ...], Meta(description="sorted by id")]
    defaults: Annotated[Defaults, Meta(description="for entries that do not say")] = Defaults()


build_decoders(Index)


def load_index(root: Path) -> Index | None:
    """The index of this root; None when it has no policies. Raises :class:`PolicyInvalid`."""
    if not has_policies(root):
        return None
    index, findings = _indexed(root)
    raise_first(findings)
    return index


def named_worlds(index: Index | None) -> tuple[str, ...]:
    """Every world that an entry names, sorted."""
    entries = () if index is None else index.policies
    return tuple(sorted({world for entry in entries for world in entry.worlds or ()}))


def load_policy(root: Path, policy_id: str = DEFAULT.id) -> Pinned:
    """Return the policy with this id, checked against its pin.

    The built-in ``default`` applies if the index names no policy with that id, in the modes that
    the index allows by default. Without an index, a policy in X07's folder ``arch/rr`` applies as
    if it had been imported. Raises :class:`PolicyInvalid` with the location.
    """
    if not _is_id(policy_id):
        raise PolicyInvalid(
            f"{policy_id[:_LONGEST_ID]!r} cannot be the id of a policy",
            place="policy",
            hint="letters, digits, '.', '_' and '-', at most 128, not starting with a mark",
        )
    index = load_index(root)
    entries = {} if index is None else {entry.id: entry for entry in index.policies}
    if index is not None and policy_id in entries:
        return _checked(root, index, entries[policy_id])
    if policy_id != DEFAULT.id:
        if index is None:
            from reenact.policy.x07_importer import load_arch_policy

            found = load_arch_policy(root, policy_id)
            if found is not None:
                return found
        raise _not_listed(root, policy_id, {DEFAULT.id, *entries})
    return replace(Pinned.of(DEFAULT), modes=None if index is None else index.defaults.modes)


def policy_file(root: Path, policy_id: str) -> str | None:
    """The file of a policy that the index need not name, relative to ``.reenact``; None when there is
    none where one would look for it."""
    file = f"policies/{policy_id}.policy.json"
    return file if _is_id(policy_id) and (root / FOLDER / file).is_file() else None


def _is_id(policy_id: str) -> bool:
    return re.search(ID_PATTERN, policy_id) is not None and len(policy_id) <= _LONGEST_ID


def _not_listed(root: Path, policy_id: str, known: set[str]) -> PolicyInvalid:
    file = policy_file(root, policy_id)
    if file is None:
        from reenact.policy.x07_importer import ARCH, has_arch_policy

        message = f"{root / FOLDER / INDEX} has no policy {policy_id}"
        is_x07 = has_arch_policy(root, policy_id)
        hint = f"reenact policy import {ARCH}" if is_x07 else did_you_mean(policy_id, known)
    else:
        message = f"{FOLDER}/{file} is not pinned: {root / FOLDER / INDEX} does not name it"
        hint = f"look through it, then: reenact policy pin {policy_id}"
    return PolicyInvalid(message, place=f"{FOLDER}/{INDEX}", hint=hint)


def _checked(root: Path, index: Index, entry: PolicyEntry) -> Pinned:
    pinned, findings = _pinned(root, index, entry)
    raise_first(findings)
    assert pinned is not None  # without a value there is an error among the findings
    return pinned


def check_all(root: Path) -> list[Finding]:
    """Everything that is wrong or odd in the policy files of this root, in the order of the index."""
    index, findings = _indexed(root)
    if index is None:
        return findings
    for entry in index.policies:
        _, found = _pinned(root, index, entry)
        findings.extend(found)
    return [*findings, *_strays(root, index)]


def _indexed(root: Path) -> tuple[Index | None, list[Finding]]:
    loaded, findings = load_file(root, INDEX, Index, INDEX_SCHEMA)
    if loaded is None:
        return None, findings if (root / FOLDER / INDEX).exists() else [_without_index(root)]
    return loaded.value, list(_index_findings(loaded.value, loaded.file))


def _without_index(root: Path) -> Finding:
    hint = "reenact policy init writes a working set"
    if has_policies(root):
        hint = "restore it, or create it again policy by policy: reenact policy pin ID"
    return Finding("error", f"{FOLDER}/{INDEX}", "$", "there is no such file", hint)


def _index_findings(index: Index, file: str) -> Iterator[Finding]:
    ids = [entry.id for entry in index.policies]
    for number, (one, after) in enumerate(pairwise(ids), 1):
        if one >= after:
            message = f"{after} stands twice" if one == after else f"{after} belongs before {one}"
            hint = "list every policy once, sorted by id"
            yield Finding("error", file, f"$.policies[{number}].id", message, hint)
    usual = (*WORLDS, *{world for world in named_worlds(index) if nearest(world, WORLDS) is None})
    for number, entry in enumerate(index.policies):
        for place, world in enumerate(entry.worlds or ()):
            if world not in usual:
                path = f"$.policies[{number}].worlds[{place}]"
                message = f"{world} is a world of your own"
                yield Finding("warning", file, path, message, did_you_mean(world, WORLDS))


def _pinned(root: Path, index: Index, entry: PolicyEntry) -> tuple[Pinned | None, list[Finding]]:
    modes = index.defaults.modes if entry.modes is None else entry.modes
    loaded, findings = load_file(root, entry.path, Policy, POLICY_SCHEMA)
    sanitizer, found = _sanitizer(root, entry)
    findings += found
    if loaded is None:
        return None, findings
    findings += _pin_findings(entry.id, entry.digest, entry.id, loaded)
    findings += policy_findings(
        loaded.value, loaded.file, entry.id, sanitizer, entry.sanitizer is not None, modes
    )
    return Pinned(
        policy=loaded.value,
        digest=loaded.digest,
        sanitizer=sanitizer,
        modes=modes,
        worlds=entry.worlds,
        kinds=entry.kinds,
        operations=entry.operations,
        path=loaded.file,
        stated=loaded.stated,
    ), findings


def _sanitizer(root: Path, entry: PolicyEntry) -> tuple[Sanitizer | None, list[Finding]]:
    named = entry.sanitizer
    if named is None:
        return None, []
    loaded, findings = load_file(root, named.path, Sanitizer, SANITIZER_SCHEMA)
    if loaded is None:
        return None, findings
    if loaded.value.id != named.id:
        message = f"its id is {loaded.value.id}, and {named.id} in the index"
        findings.append(Finding("error", loaded.file, "$.id", message, "make the two the same"))
    findings += _pin_findings(named.id, named.digest, entry.id, loaded)
    return loaded.value, findings


def _pin_findings(
    name: str, pinned: str, policy_id: str, loaded: Loaded[Policy] | Loaded[Sanitizer]
) -> Iterator[Finding]:
    if pinned == loaded.digest:
        return
    message = f"{name} is not what the index pins" if pinned else f"{name} is not pinned yet"
    hint = f"undo the change, or if it is meant: reenact policy pin {policy_id}"
    yield Finding("error", loaded.file, "$", message, hint)


def _strays(root: Path, index: Index) -> Iterator[Finding]:
    """Report files that look like policies or sanitizers but are not used."""
    folder = root / FOLDER
    named = {entry.path for entry in index.policies}
    named |= {entry.sanitizer.path for entry in index.policies if entry.sanitizer is not None}
    for pattern in ("policies/*.policy.json", "sanitizers/*.sanitize.json"):
        for path in sorted(folder.glob(pattern)):
            relative = path.relative_to(folder).as_posix()
            if relative not in named:
                hint = f"name it in {FOLDER}/{INDEX}, then: reenact policy pin"
                if policy_file(root, path.name.removesuffix(".policy.json")) == relative:
                    hint = f"reenact policy pin {path.name.removesuffix('.policy.json')}"
                message = "the index does not name it, so it is not in force"
                yield Finding("warning", f"{FOLDER}/{relative}", "$", message, hint)


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
    """Create a restricted entry, which a person can widen: not in production, and only in the
    default modes.
    """
    file = policy_file(root, policy_id)
    if file is None:
        raise PolicyInvalid(
            f"{FOLDER}/{INDEX} has no policy {policy_id[:128]}",
            place=f"{FOLDER}/{INDEX}",
            hint=did_you_mean(policy_id, ids),
        )
    policy, findings = load_file(root, file, Policy, POLICY_SCHEMA)
    raise_first(findings)
    if policy is not None and policy.value.id != policy_id:
        raise PolicyInvalid(
            f"{policy.file} $.id: its id is {policy.value.id}, but its file name means {policy_id}",
            place=f"{policy.file} $.id",
            hint="use one id for both",
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
