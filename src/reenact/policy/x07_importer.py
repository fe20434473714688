"""Import of X07 policies, with a note for every setting that changes its meaning or is lost.

The stricter side applies if the two tools differ: a call that X07 would refuse is refused here, and
X07's redaction rules apply in addition to the built-in ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact.errors import PolicyInvalid, UsageError, did_you_mean
from reenact.format.canonical import digest
from reenact.policy.files import load_file, raise_first
from reenact.policy.index import INDEX, Index, PolicyEntry, SanitizerEntry, load_index
from reenact.policy.model import (
    DEFAULT,
    SANITIZER_SCHEMA,
    Budgets,
    Ignore,
    Mode,
    Pinned,
    Policy,
    Sanitizer,
)
from reenact.policy.paths import FOLDER
from reenact.policy.redaction.names import normalise
from reenact.policy.redaction.placeholder import PLACEHOLDER
from reenact.policy.x07_files import (
    ARCH_INDEX,
    Arch,
    ArchMode,
    ArchPolicy,
    ArchSanitizer,
    ArchWorld,
    HttpKey,
    Member,
    load_arch,
)

__all__ = [
    "ARCH",
    "KINDS",
    "SALT",
    "WORLDS",
    "Import",
    "Note",
    "has_arch_policy",
    "import_arch",
    "load_arch_policy",
    "notes",
]

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
    """Files to write below the folder ``.reenact``, and notes about them.

    ``files`` are new; ``kept`` exist already with the same contents. ``index`` is the complete new
    content of the index and is written last, because the files have no effect without it.
    """

    policies: tuple[str, ...]
    files: dict[str, bytes]
    kept: tuple[str, ...]
    index: bytes
    notes: tuple[Note, ...]


def import_arch(arch: Arch, root: Path) -> Import:
    """Convert the policies of ``arch`` to policies of ``root``. Writes nothing.

    Raises :class:`UsageError` if an id or a file exists already, and :class:`PolicyInvalid` if the
    existing index is invalid.
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
    """Return whether an earlier import already added the same file."""
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


# The fixture worlds that can use recordings are worlds of tests, which also run in CI.
WORLDS: dict[ArchWorld, tuple[str, ...]] = {
    "run-os": ("local",),
    "solve-full": ("ci", "test"),
    "solve-rr": ("ci", "test"),
}
"""Reenact's worlds for an X07 world. Other worlds keep their names."""

KINDS = {"file": "fs", "http": "network", "process": "process", "rr": "rr"}
"""Reenact's kind for an X07 kind of call. All keep their own names too, for ``reenact.rr``."""

SALT = "REENACT_SALT"
"""The variable for the salt of an imported sanitizer."""

_OF_OURS = "add them to kinds in .reenact/index.json if the program needs them"
_LOW_LEVEL = ("std.rr.", "std.msg.", "std.crawl.", "std.stream.src.rr_send_v1")

Fate = Literal["mapped", "changed", "lost"]


@dataclass(frozen=True, slots=True)
class Note:
    """Result for one setting.

    ``mapped`` has the same meaning under Reenact's name, ``changed`` has a different meaning here,
    ``lost`` was not carried over. ``file`` and ``path`` are the location in the X07 folder.
    """

    fate: Fate
    file: str
    path: str
    message: str
    hint: str = ""


# A note without its file.
_Said = tuple[Fate, str, str, str]


def notes(arch: Arch) -> Iterator[Note]:
    """Every setting that is there, in the order of the files. Shows no salt and no token."""
    allowed = ", ".join(mode.removesuffix("_v1") for mode in arch.index.modes)
    place = "$.defaults.record_modes_allowed" if arch.index.defaults.record_modes_allowed else "$"
    yield Note("mapped", arch.file, place, f"the modes {allowed}, for each of its policies")
    for member in arch.members:
        yield from _noted(arch.file, _reference(member))
    for member in arch.members:
        yield from _noted(member.policy_file, _policy_notes(member.policy))
    for file, sanitizer in {one.sanitizer_file: one.sanitizer for one in arch.members}.items():
        yield from _noted(file, _sanitizer_notes(sanitizer))
    for file in arch.strays:
        hint = "name it in the index of X07 and import again, if it is wanted"
        yield Note("lost", file, "$", "the index does not name it", hint)


def _noted(file: str, said: Iterator[_Said]) -> Iterator[Note]:
    for fate, path, message, hint in said:
        yield Note(fate, file, path, message, hint)


def _reference(member: Member) -> Iterator[_Said]:
    place = f"$.policies[{member.number}]"
    for name, each in _LISTS.items():
        for number, item in enumerate(getattr(member.reference, name)):
            fate, message, hint = each(item)
            yield fate, f"{place}.{name}[{number}]", message, hint
    message = "clock, rng, env, llm and tool are kinds too, and refused unless they are listed"
    yield "changed", f"{place}.kinds_allowed", message, _OF_OURS
    message = "no cassette is imported, only policies and sanitizers"
    yield "lost", f"{place}.cassette_brand", message, "record again under the policy"


def _world(world: ArchWorld) -> tuple[Fate, str, str]:
    ours = WORLDS.get(world)
    if ours is None:
        hint = f"set REENACT_WORLD={world} there, or name one of our worlds in .reenact/index.json"
        return "changed", f"{world} stays a world of its own", hint
    if world == "run-os":
        hint = "add staging or production in .reenact/index.json if it is meant for them"
        return "changed", f"{world} is {' and '.join(ours)} alone", hint
    return "mapped", f"{world} is {' and '.join(ours)}", ""


def _kind(kind: str) -> tuple[Fate, str, str]:
    ours = KINDS.get(kind)
    if ours is None:
        hint = "name the kind that is meant in .reenact/index.json, such as network"
        return "changed", f"{kind} keeps its name, which only calls of reenact.rr can have", hint
    if ours == kind:
        return "mapped", f"{kind} keeps its name", ""
    return "mapped", f"{kind} is {ours}, and {kind} in calls of reenact.rr", ""


def _operation(operation: str) -> tuple[Fate, str, str]:
    if operation.startswith(_LOW_LEVEL):
        return "mapped", f"{operation} keeps its name", ""
    hint = "add the operations that your program calls to its entry in .reenact/index.json"
    return "changed", f"{operation} keeps its name, which only calls of reenact.rr can have", hint


_LISTS: dict[str, Callable[..., tuple[Fate, str, str]]] = {
    "worlds_allowed": _world,
    "kinds_allowed": _kind,
    "ops_allowed": _operation,
}


def _policy_notes(policy: ArchPolicy) -> Iterator[_Said]:
    yield "lost", "$.v", "policies have no version number here; the index pins their contents", ""
    mode = policy.mode_default.removesuffix("_v1")
    yield "mapped", "$.mode_default", f'mode "{mode}"', ""
    if policy.match_mode == "lookup_v1":
        yield "mapped", "$.match_mode", 'match "lookup"', ""
    else:
        message = 'match "transcript", which also compares keys and does not advance on a miss'
        yield (
            "changed",
            "$.match_mode",
            message,
            "set ignore in the policy for parts that must not be compared",
        )
    message = (
        'strictness "strict", as X07 refuses every miss; events that are left over are errors too'
    )
    yield "changed", "$", message, '"unused": "allow" in the policy lets a replay leave some over'
    message = "the same five numbers, 0 meaning zero; they count bytes as our recordings have them"
    yield "changed", "$.budgets", message, "raise them if they turn out too tight"
    yield from _http(policy)


def _http(policy: ArchPolicy) -> Iterator[_Said]:
    key = policy.http.key_v1
    if key is None:
        return
    place = "$.http.key_v1"
    yield "mapped", f"{place}.include_headers", "keyHeaders", ""
    yield "mapped", f"{place}.ignore_headers", "ignore.headers", ""
    for name, what in (("query_sort", "queries"), ("body_hash", "bodies")):
        yield "lost", f"{place}.{name}", f"Reenact has no setting for the comparison of {what}", ""


def _sanitizer_notes(sanitizer: ArchSanitizer) -> Iterator[_Said]:
    yield "lost", "$.v", "sanitizers have no version number here; the index pins their contents", ""
    message = 'the built-in rules of the profile "default" hold as well'
    yield "changed", "$", message, '"profile": "none" would turn them off'
    for number, name in enumerate(sanitizer.redact_headers):
        place = f"$.redact_headers[{number}]"
        if normalise(name):
            message = f"secretNames has {name}, which holds for fields and parameters as well"
            yield "changed", place, message, ""
        else:
            yield "lost", place, f"{name} has no letter or digit to know it by", "rename the header"
    if sanitizer.redact_token != PLACEHOLDER:
        yield "lost", "$.redact_token", f"what stands for a secret is always {PLACEHOLDER}", ""
    if sanitizer.stable_pseudonym_salt is not None:
        message = "the salt is not copied, because in a file it is a secret that everybody has"
        hint = f"set {SALT}, which saltEnv names now, to a new salt; else secrets all look the same"
        yield "lost", "$.stable_pseudonym_salt", message, hint
