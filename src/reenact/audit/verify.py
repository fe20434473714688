"""Offline verification of an exported log, which recomputes everything and reports all faults.

Heads must be signed by the right key, be in order, and have the roots of the hashes. The trusted keys
and heads come from a different source. Without a key the export only proves itself. Without an earlier
head, the owner of the key could have rewritten the complete log. The report states what was proven.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from reenact.audit.bundle import CHECKPOINTS, Bundle, KeySpan, open_bundle, read_leaves
from reenact.audit.keys import Key
from reenact.audit.log import Head, open_head, parse_head, read_heads, tenant_of
from reenact.audit.merkle import Frontier
from reenact.audit.verify_records import Findings, Report, check_records
from reenact.errors import AuditInvalid

__all__ = [
    "HeadsRead",
    "check_heads",
    "verify_export",
]

_CODES = {"note.signature": "head.signature", "note.unsigned": "head.key"}


class HeadsRead(msgspec.Struct):
    """Result of checking the heads, besides faults.

    ``roots`` are the roots at the requested sizes; ``signed`` is the size of the largest valid
    head.
    """

    size: int = 0
    root: bytes = b""
    heads: int = 0
    signed: int | None = None
    roots: dict[int, bytes] = msgspec.field(default_factory=dict)


def check_heads(bundle: Bundle, sizes: Iterable[int], findings: Findings) -> HeadsRead:
    """Look at every head and every hash once, in bounded memory."""
    tree = _Tree(bundle, frozenset(sizes), findings)
    check = _Check(bundle, tree, findings)
    for data in _heads(bundle, findings):
        check.read.heads += 1
        check.head(data)
    tree.grow(None)
    check.end()
    read = check.read
    read.size, read.root, read.roots = tree.size, tree.root(), tree.roots
    return read


def _heads(bundle: Bundle, findings: Findings) -> Iterator[bytes]:
    with bundle.open(CHECKPOINTS) as file:
        try:
            yield from read_heads(file)
        except AuditInvalid as error:
            findings.add("head.malformed", error.message)


class _Tree:
    """The tree over the hashes, which grows as far as it is asked to."""

    def __init__(self, bundle: Bundle, sizes: frozenset[int], findings: Findings) -> None:
        self.roots: dict[int, bytes] = {}
        self._frontier = Frontier()
        self._leaves = read_leaves(bundle)
        self._sizes = sizes
        self._findings = findings

    @property
    def size(self) -> int:
        return self._frontier.size

    def root(self) -> bytes:
        return self._frontier.root()

    def grow(self, size: int | None) -> bool:
        """To ``size``, or to the end; False when there are not as many hashes."""
        try:
            while size is None or self.size < size:
                leaf = next(self._leaves, None)
                if leaf is None:
                    return False
                self._frontier, _ = self._frontier.append(leaf)
                if self.size in self._sizes:
                    self.roots[self.size] = self.root()
        except AuditInvalid as error:
            self._findings.add("leaves.malformed", error.message, self.size)
            return False
        return True


class _Check:
    def __init__(self, bundle: Bundle, tree: _Tree, findings: Findings) -> None:
        self.read = HeadsRead()
        self._origin = bundle.manifest.origin
        self._spans = bundle.keys
        self._keys = [span.key for span in bundle.keys]
        self._tree = tree
        self._findings = findings
        self._largest = 0
        self._good = 0  # size of the last head whose root is right
        self._bad: list[int] = []  # sizes of those since then, the first and the last one
        self._bad_count = 0

    def head(self, data: bytes) -> None:
        """Check one head."""
        try:
            head = parse_head(data)
        except AuditInvalid as error:
            self._findings.add("head.malformed", f"head {self.read.heads}: {error.message}")
            return
        if head.checkpoint.origin != self._origin:
            self._findings.add(
                "head.origin", f"head {self.read.heads} is of {head.checkpoint.origin}"
            )
        elif self._is_signed(head):
            self._compare(head)

    def _is_signed(self, head: Head) -> bool:
        which = f"head {self.read.heads}, of size {head.size}"
        try:
            signed = head.note.signed_by(self._keys)
        except AuditInvalid as error:
            code = _CODES.get(error.reason, "head.malformed")
            self._findings.add(code, f"{which}: {error.message}")
            return False
        key = _key_at(self._spans, head.size)
        if key.key not in signed:
            self._findings.add(
                "head.key",
                f"{which}: signed by {signed[0].to_text()}, but the key at that size is "
                f"{key.key.to_text()}",
            )
            return False
        return True

    def _compare(self, head: Head) -> None:
        if head.size < self._largest:
            self._findings.add(
                "head.order",
                f"head {self.read.heads} has size {head.size}, one before it {self._largest}",
            )
            return
        self._largest = head.size
        if not self._tree.grow(head.size):
            return  # reported once at the end
        if self._tree.root() == head.root:
            self._tell_bad()
            self._good = head.size
            self.read.signed = head.size
        else:
            self._bad = [*self._bad[:1], head.size]
            self._bad_count += 1

    def _tell_bad(self) -> None:
        """Heads in a row that do not match have one cause: tell of them once."""
        if self._bad:
            first = self._bad[0]
            more = f", and so on to size {self._bad[-1]}" if self._bad_count > 1 else ""
            self._findings.add(
                "head.mismatch",
                f"the head of size {first} was signed over other records{more}: what differs is "
                + (f"in records {self._good} to {first - 1}" if first > self._good else "the head"),
                self._good if first > self._good else first,
                first if first > self._good else None,
            )
        self._bad, self._bad_count = [], 0

    def end(self) -> None:
        """After the last head."""
        self._tell_bad()
        size, covered = self._tree.size, self._largest
        if covered > size:
            self._findings.add(
                "log.truncated",
                f"the heads are about {covered} records, and there are hashes of only {size}",
                size,
                covered,
            )
        if not self.read.heads:
            self._findings.add("log.unsigned", "the export has no head", 0 if size else None)
        elif covered < size:
            self._findings.add(
                "log.unsigned", f"no head covers records {covered} to {size - 1}", covered, size
            )


def _key_at(spans: tuple[KeySpan, ...], size: int) -> KeySpan:
    return [span for span in spans if span.start <= size][-1]


def encoded(root: bytes) -> str:
    """A root as a manifest states it."""
    return b64encode(root).decode()


def verify_export(path: Path, keys: Sequence[Key] = (), pinned: bytes | None = None) -> Report:
    """Verify the export at ``path``.

    ``keys`` are verifier keys of the log that the caller trusts. One is sufficient, because the
    records announce the others. ``pinned`` is an earlier signed head. Raises :class:`AuditInvalid`
    if it is not an export. All other faults are in the report.
    """
    bundle = open_bundle(path)
    findings = Findings()
    trusted = _check_trust(bundle, keys, findings)
    pin = _open_pin(bundle, keys, pinned, findings) if pinned is not None else None
    records = check_records(bundle, bundle.manifest.tenant, findings)
    heads = check_heads(bundle, [pin.size] if pin else [], findings)
    if pin is not None:
        _check_pin(pin, heads, findings)
    _check_manifest(bundle, heads, findings)
    return Report(
        origin=bundle.manifest.origin,
        tenant=bundle.manifest.tenant,
        size=heads.size,
        heads=heads.heads,
        first_at=records.first_at,
        last_at=records.last_at,
        keys=tuple(span.key.to_text() for span in bundle.keys),
        pinned=pin.size if pin else None,
        first_bad=findings.first_bad,
        findings=tuple(findings.kept),
        counts=dict(sorted(findings.counts.items())),
        proven=() if findings.counts else tuple(_proven(bundle, heads, trusted, pin)),
        not_proven=tuple(_not_proven(heads, trusted, pin)),
    )


def _check_trust(bundle: Bundle, keys: Sequence[Key], findings: Findings) -> bool:
    if not keys:
        return False
    if any(span.key in keys for span in bundle.keys):
        return True
    findings.add(
        "key.untrusted",
        f"signed with {bundle.keys[0].key.to_text()}, and not with a key that was given",
    )
    return False


def _open_pin(
    bundle: Bundle, keys: Sequence[Key], pinned: bytes, findings: Findings
) -> Head | None:
    try:
        pin = open_head(pinned, [*keys, *(span.key for span in bundle.keys)])
    except AuditInvalid as error:
        findings.add("pinned.invalid", f"the pinned head: {error.message}")
        return None
    if pin.checkpoint.origin != bundle.manifest.origin:
        findings.add("pinned.invalid", f"the pinned head is of {pin.checkpoint.origin}")
        return None
    return pin if pin.size else None  # an empty log is the beginning of any


def _check_pin(pin: Head, heads: HeadsRead, findings: Findings) -> None:
    if pin.size > heads.size:
        findings.add(
            "log.truncated",
            f"the pinned head covers {pin.size} records, but the export has only {heads.size}: "
            "the others were removed after it",
            heads.size,
            pin.size,
        )
    elif heads.roots[pin.size] != pin.root:
        findings.add(
            "log.forked",
            f"the first {pin.size} records do not match the pinned head: "
            "they were changed and signed again after it",
            0,
            pin.size,
        )


def _check_manifest(bundle: Bundle, heads: HeadsRead, findings: Findings) -> None:
    manifest = bundle.manifest
    for what, stated, found in (
        ("size", manifest.size, heads.size),
        ("heads", manifest.heads, heads.heads),
        ("root", manifest.root, encoded(heads.root)),
        ("tenant", manifest.tenant, tenant_of(manifest.origin)),
    ):
        if stated != found:
            findings.add(
                "manifest.mismatch", f"the manifest states {what} {stated}, but it is {found}"
            )
    for span in bundle.keys:
        if span.key.name != manifest.origin:
            findings.add("key.rotation", f"the key {span.key.to_text()} belongs to a different log")


def _proven(bundle: Bundle, heads: HeadsRead, trusted: bool, pin: Head | None) -> Iterator[str]:
    whose = "a trusted key" if trusted else "the keys that the export itself names"
    yield (
        f"the {heads.size} records are complete, unchanged and in order according to {heads.heads} "
        f"heads of {bundle.manifest.origin}, which were signed with {whose}"
    )
    if pin is not None:
        yield f"the first {pin.size} records match the pinned head"


def _not_proven(heads: HeadsRead, trusted: bool, pin: Head | None) -> Iterator[str]:
    if not trusted:
        yield "who signed it: no trusted verifier key of this log was given"
    if pin is None:
        yield (
            "that no records were removed at the end, and that the holder of the key did not rewrite "
            "the history: no head from an earlier time was given"
        )
    elif pin.size < heads.size:
        yield (
            f"that the holder of the key did not rewrite records {pin.size} and later before this "
            "export: they are newer than the pinned head"
        )
    else:
        yield "that the log has no later records: this export ends with the pinned head"
