"""Faults of an exported log, with one code each, and the verification report."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

__all__ = ["CODES", "KEPT", "Finding", "Findings", "Report"]

KEPT: Final = 100
"""Stored findings per code. Further findings are only counted."""

CODES: Final[dict[str, str]] = {
    "record.edited": "a record is not the one that was hashed",
    "record.deleted": "records are missing between others",
    "record.inserted": "a record stands there that the log never had",
    "record.duplicate": "a record stands there twice",
    "record.reordered": "a record stands in another place than it was written at",
    "record.backdated": "a record is older than the one before it",
    "record.malformed": "a line is not a record in canonical form",
    "record.foreign": "a record belongs to another tenant",
    "record.chain": "a record names a head that cannot have been there before it",
    "log.truncated": "the log ends before a head of it, or the hashes, say",
    "log.forked": "the log does not begin with what the pinned head is about",
    "log.unsigned": "no head covers the last records",
    "leaves.malformed": "the file of hashes cannot be read",
    "head.malformed": "a head cannot be read",
    "head.signature": "a head was changed after it was signed",
    "head.key": "a head is signed by another key than the log's at that size",
    "head.origin": "a head is of another log",
    "head.mismatch": "a head's root is not that of the records",
    "head.order": "a head is smaller than the one before it",
    "head.missing": "a head that a record names is not there",
    "key.untrusted": "none of the keys given is a key of this log",
    "key.rotation": "a change of keys is not announced as it must be",
    "pinned.invalid": "the pinned head is not one of this log",
    "manifest.mismatch": "the manifest says something else than is there",
}
"""Stable: a code never changes its meaning."""


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One thing that is wrong. It is about record ``seq``; or about one or more of those from
    ``seq`` up to and without ``until``; or, without ``seq``, about the export as a whole."""

    code: str
    message: str
    seq: int | None = None
    until: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Findings:
    """A list in which a flood of one kind does not drown the others, nor the memory."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self.first_bad: int | None = None

    def add(
        self, code: str, message: str, seq: int | None = None, until: int | None = None
    ) -> None:
        """Add one, with a code of :data:`CODES`."""
        self.counts[code] += 1
        if self.counts[code] <= KEPT:
            self.kept.append(Finding(code, message, seq, until))
        if seq is not None and (self.first_bad is None or seq < self.first_bad):
            self.first_bad = seq


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """Result of verifying an export: what was proven, and what could not be proven."""

    origin: str
    tenant: str
    size: int
    heads: int
    first_at: int | None
    last_at: int | None
    keys: tuple[str, ...]
    pinned: int | None
    first_bad: int | None
    findings: tuple[Finding, ...]
    counts: dict[str, int]
    proven: tuple[str, ...]
    not_proven: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Is nothing wrong? That is not yet a proof: see ``not_proven``."""
        return not self.counts

    def to_json(self) -> dict[str, Any]:
        """The stable machine form."""
        return {"version": 1, "ok": self.ok, **msgspec.to_builtins(self)}
