"""Whether an exported log is what was signed: everything recomputed, offline, all faults told.

It is verified against keys and heads that come from elsewhere. Without a key the export vouches for
itself; without a head kept from before, whoever holds the key could have written it all anew. The
report says which of this holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from reenact.audit.bundle import Bundle, open_bundle
from reenact.audit.checkpoint import Head, open_head, tenant_of
from reenact.audit.findings import Findings, Report
from reenact.audit.keys import Key
from reenact.audit.verify_heads import HeadsRead, check_heads, encoded
from reenact.audit.verify_records import check_records
from reenact.errors import AuditInvalid

__all__ = ["verify_export"]


def verify_export(path: Path, keys: Sequence[Key] = (), pinned: bytes | None = None) -> Report:
    """Verify the export at ``path``.

    ``keys`` are verifier keys of the log that the caller trusts: one of them is enough, the others
    follow from what the records announce. ``pinned`` is a signed head from before. Raises
    :class:`AuditInvalid` when it is no export at all; whatever else is wrong is in the report.
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
            f"the pinned head is about {pin.size} records, and there are only {heads.size}: "
            "the others were removed since",
            heads.size,
            pin.size,
        )
    elif heads.roots[pin.size] != pin.root:
        findings.add(
            "log.forked",
            f"the first {pin.size} records are not those of the pinned head: "
            "they were changed since, and signed again",
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
                "manifest.mismatch", f"the manifest says {what} {stated}, and it is {found}"
            )
    for span in bundle.keys:
        if span.key.name != manifest.origin:
            findings.add("key.rotation", f"the key {span.key.to_text()} is of another log")


def _proven(bundle: Bundle, heads: HeadsRead, trusted: bool, pin: Head | None) -> Iterator[str]:
    whose = "a trusted key" if trusted else "the keys that the export itself names"
    yield (
        f"the {heads.size} records are, in this order and whole, those that {heads.heads} heads of "
        f"{bundle.manifest.origin} were signed over, with {whose}"
    )
    if pin is not None:
        yield f"the first {pin.size} records are those of the pinned head"


def _not_proven(heads: HeadsRead, trusted: bool, pin: Head | None) -> Iterator[str]:
    if not trusted:
        yield "who signed it: no trusted verifier key of this log was given"
    if pin is None:
        yield (
            "that no records were removed at the end, and that the holder of the key did not write "
            "the history anew: no head kept from before was given"
        )
    elif pin.size < heads.size:
        yield (
            f"that records {pin.size} and later are as they first were, should the holder of the "
            "key have written them anew before this export: they are younger than the pinned head"
        )
    else:
        yield "that there are no later records: this export ends with the pinned head"
