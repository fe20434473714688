"""Types and reader of the files in an X07 folder ``arch/rr``.

X07 allows no unknown fields, and neither do these types. Names and limits follow its schemas,
except that headers and operations must be names, as in Reenact's own files. The reader returns the
complete folder or reports everything that is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from reenact.errors import ValueRefused
from reenact.format.canonical import decode
from reenact.policy.files import Finding, content_of, problems, read
from reenact.policy.model import Header, Id, Kind, Limit
from reenact.policy.paths import unsafe_reason

__all__ = [
    "ARCH_INDEX",
    "Arch",
    "ArchIndex",
    "ArchMode",
    "ArchPolicy",
    "ArchSanitizer",
    "ArchWorld",
    "HttpKey",
    "Member",
    "Reference",
    "load_arch",
]

S = TypeVar("S", bound=msgspec.Struct)

ARCH_INDEX = "index.x07rr.json"
"""The file of the folder that names the others."""

_INDEX_SCHEMA = "x07.arch.rr.index@0.1.0"
_POLICY_SCHEMA = "x07.arch.rr.policy@0.1.0"
_SANITIZER_SCHEMA = "x07.arch.rr.sanitize@0.1.0"
# X07 writes paths from the root of its project, in which the folder always has this name.
_OWN_NAME = "arch/rr/"


def _of(words: str, **limits: Any) -> Meta:
    return Meta(extra={"expected": words}, **limits)


_Path = Annotated[str, _of("a path of 1 to 1024 characters", min_length=1, max_length=1024)]
_Operation = Annotated[
    str,
    _of(
        "the name of an operation, without * ? and [",
        pattern=r"^[^*?\[]+(?![\s\S])",
        max_length=256,
    ),
]
_Version = Annotated[int, _of("a whole number, 1 or more", ge=1)]
_Token = Annotated[str, _of("a text of at most 256 characters", max_length=256)]

ArchMode = Literal["off", "record_v1", "replay_v1", "record_missing_v1", "rewrite_v1"]
ArchWorld = Literal[
    "solve-pure", "solve-fs", "solve-rr", "solve-kv", "solve-full", "run-os", "run-os-sandboxed"
]


class _Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base class with the encoding rules of X07 files."""


class Reference(_Part, frozen=True):
    """A policy in the index of X07, and where it may be used."""

    id: Id
    policy_path: _Path
    sanitize_id: Id
    sanitize_path: _Path
    worlds_allowed: tuple[ArchWorld, ...]
    kinds_allowed: tuple[Kind, ...]
    ops_allowed: tuple[_Operation, ...]
    cassette_brand: Literal["std.rr.cassette_v1"]


class _Defaults(_Part, frozen=True):
    record_modes_allowed: tuple[ArchMode, ...]


class ArchIndex(_Part, frozen=True):
    """``index.x07rr.json``."""

    schema_version: Literal["x07.arch.rr.index@0.1.0"]
    policies: tuple[Reference, ...]
    defaults: _Defaults = _Defaults(())

    @property
    def modes(self) -> tuple[ArchMode, ...]:
        """The modes that its policies may be used in: replay alone when it does not say."""
        return self.defaults.record_modes_allowed or ("replay_v1",)


class _Budgets(_Part, frozen=True):
    max_cassette_bytes: Limit
    max_entries: Limit
    max_req_bytes: Limit
    max_resp_bytes: Limit
    max_key_bytes: Limit


class HttpKey(_Part, frozen=True):
    """Compared parts of an HTTP request."""

    include_headers: tuple[Header, ...]
    ignore_headers: tuple[Header, ...]
    query_sort: Literal["lex_u8_v1"]
    body_hash: Literal["sha256_v1"]


class _Http(_Part, frozen=True):
    key_v1: HttpKey | None = None


class ArchPolicy(_Part, frozen=True):
    """A file ``*.policy.json``."""

    schema_version: Literal["x07.arch.rr.policy@0.1.0"]
    id: Id
    v: _Version
    mode_default: ArchMode
    match_mode: Literal["lookup_v1", "transcript_v1"]
    budgets: _Budgets
    http: _Http = _Http()


class ArchSanitizer(_Part, frozen=True):
    """A file ``*.sanitize.json``. The salt is a secret: it goes nowhere from here."""

    schema_version: Literal["x07.arch.rr.sanitize@0.1.0"]
    id: Id
    v: _Version
    redact_headers: tuple[Header, ...]
    redact_token: _Token
    stable_pseudonym_salt: _Token | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One policy of the index with the files that it names. ``number`` counts from 0."""

    number: int
    reference: Reference
    policy: ArchPolicy
    policy_file: str
    sanitizer: ArchSanitizer
    sanitizer_file: str


@dataclass(frozen=True, slots=True)
class Arch:
    """A whole folder. ``strays`` are files that look like part of it and that its index leaves out."""

    file: str
    index: ArchIndex
    members: tuple[Member, ...]
    strays: tuple[str, ...]


def load_arch(folder: Path) -> tuple[Arch | None, list[Finding]]:
    """Read a folder; it is there when nothing was found. Raises nothing, changes nothing.

    Files of findings are below ``folder`` as it was given. Nothing outside of it is read.
    """
    index, findings = _load(folder, ARCH_INDEX, ArchIndex, _INDEX_SCHEMA)
    if index is None:
        return None, findings
    members: list[Member] = []
    for number, reference in enumerate(index.policies):
        member, found = _member(folder, number, reference)
        findings += found
        if member is not None:
            members.append(member)
    file = str(folder / ARCH_INDEX)
    findings += _contradictions(file, index, members)
    if findings:
        return None, list(dict.fromkeys(findings))  # policies may share a sanitizer
    return Arch(file, index, tuple(members), tuple(_strays(folder, index))), []


def _member(folder: Path, number: int, reference: Reference) -> tuple[Member | None, list[Finding]]:
    policy, findings = _load(folder, reference.policy_path, ArchPolicy, _POLICY_SCHEMA)
    sanitizer, found = _load(folder, reference.sanitize_path, ArchSanitizer, _SANITIZER_SCHEMA)
    findings += found
    if policy is None or sanitizer is None:
        return None, findings
    files = (_named(folder, reference.policy_path), _named(folder, reference.sanitize_path))
    return Member(number, reference, policy, files[0], sanitizer, files[1]), findings


def _load(
    folder: Path, relative: str, kind: type[S], schema: str
) -> tuple[S | None, list[Finding]]:
    file = _named(folder, relative)
    try:
        raw = decode(_content(folder, relative))
    except FileNotFoundError:
        hint = "give the folder of the index, usually arch/rr, with all files that it names"
        return None, [Finding("error", file, "$", "there is no such file", hint)]
    except ValueRefused as refused:
        hint = "mend the file, as X07 would refuse it too"
        return None, [Finding("error", file, "$", refused.message.removeprefix("$: "), hint)]
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "use a regular file in the folder that you can read"
        return None, [Finding("error", file, "$", f"it cannot be read: {reason}", hint)]
    if not isinstance(raw, dict) or raw.get("schema_version") != schema:
        message = f"this is not a file of version {schema}"
        hint = f'expected an object with "schema_version": "{schema}"'
        return None, [Finding("error", file, "$", message, hint)]
    found = [
        Finding("error", file, one.path, one.message, one.hint or "mend it and import again")
        for one in problems(raw, kind)
    ]
    return (None, found) if found else (read(raw, kind), [])


def _content(folder: Path, relative: str) -> bytes:
    inner = relative.removeprefix(_OWN_NAME)
    reason = unsafe_reason(inner)
    if reason is not None:
        raise ValueError(f"the path is refused: {reason}")
    return content_of(folder, inner)


def _named(folder: Path, relative: str) -> str:
    """Return the file for a message. A refused path is shown as written in the index."""
    inner = relative.removeprefix(_OWN_NAME)
    return f"{folder}: {relative[:200]!r}" if unsafe_reason(inner) else str(folder / inner)


def _contradictions(file: str, index: ArchIndex, members: list[Member]) -> Iterator[Finding]:
    if not index.policies:
        yield Finding(
            "error", file, "$.policies", "it names no policy", "there is nothing to import"
        )
    ids = [reference.id for reference in index.policies]
    for number, one in enumerate(ids):
        if one in ids[:number]:
            path = f"$.policies[{number}].id"
            yield Finding("error", file, path, f"{one} stands twice", "list every policy once")
    sanitizers: dict[str, ArchSanitizer] = {}
    for member in members:
        yield from _mismatches(index, member)
        if sanitizers.setdefault(member.sanitizer.id, member.sanitizer) != member.sanitizer:
            message = f"a file with different content has the same id, {member.sanitizer.id}"
            yield Finding("error", member.sanitizer_file, "$.id", message, "give it a different id")


def _mismatches(index: ArchIndex, member: Member) -> Iterator[Finding]:
    reference, policy, sanitizer = member.reference, member.policy, member.sanitizer
    for file, own, listed in (
        (member.policy_file, policy.id, reference.id),
        (member.sanitizer_file, sanitizer.id, reference.sanitize_id),
    ):
        if own != listed:
            message = f"its id is {own}, and {listed} in the index"
            yield Finding("error", file, "$.id", message, "make the two the same")
    if policy.mode_default not in index.modes:
        message = f"the index does not allow the mode {policy.mode_default}"
        hint = f"allowed: {', '.join(index.modes)}"
        yield Finding("error", member.policy_file, "$.mode_default", message, hint)


def _strays(folder: Path, index: ArchIndex) -> Iterator[str]:
    paths = {path for one in index.policies for path in (one.policy_path, one.sanitize_path)}
    named = {str(folder / path.removeprefix(_OWN_NAME)) for path in paths}
    for pattern in ("policies/*.policy.json", "sanitizers/*.sanitize.json"):
        yield from (str(path) for path in sorted(folder.glob(pattern)) if str(path) not in named)
