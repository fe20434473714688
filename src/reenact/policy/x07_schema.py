"""The shapes of the files in an X07 folder ``arch/rr``.

X07 allows no unknown fields, so neither do these. Names and limits are those of its schemas, except
that headers and operations must be names, because ours must be.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from reenact.policy.terms import Header, Id, Kind, Limit

__all__ = [
    "ArchIndex",
    "ArchMode",
    "ArchPolicy",
    "ArchSanitizer",
    "ArchWorld",
    "HttpKey",
    "Reference",
]


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
    """How every part of an X07 file is written."""


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
    """What of an HTTP request is compared."""

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
