"""Proofs out of an export, for whoever has the whole log and wants to show a part of it."""

from __future__ import annotations

from collections import deque
from itertools import islice

from reenact.audit.bundle import CHECKPOINTS, RECORDS, Bundle, read_leaves
from reenact.audit.checkpoint import Head, parse_head, read_heads
from reenact.audit.merkle import hash_leaf
from reenact.audit.proof import Proof
from reenact.audit.proving import (
    check_inclusion,
    consistency_ranges,
    inclusion_ranges,
    roots_of_ranges,
)
from reenact.audit.record import MAX_RECORD
from reenact.errors import AuditInvalid

__all__ = ["last_head", "prove_growth", "prove_record"]


def last_head(bundle: Bundle) -> Head:
    """The last head that stands there, as it stands there: who signed it is not looked at."""
    with bundle.open(CHECKPOINTS) as file:
        last = deque(read_heads(file), maxlen=1)
    if not last:
        raise AuditInvalid(
            f"{bundle.path} has no signed head", reason="bundle.unsigned", hint="export again"
        )
    return parse_head(last[0])


def prove_record(bundle: Bundle, seq: int) -> Proof:
    """The proof that record ``seq`` is in the log. Raises :class:`AuditInvalid` when it is not."""
    head = last_head(bundle)
    path = roots_of_ranges(inclusion_ranges(seq, head.size), read_leaves(bundle))
    with bundle.open(RECORDS) as file:
        lines = iter(lambda: file.readline(MAX_RECORD + 1), b"")
        leaf = next(islice(lines, seq, None), b"").removesuffix(b"\n")
    check_inclusion(hash_leaf(leaf), seq, head.size, head.root, path)
    return Proof(leaf, seq, tuple(path), head)


def prove_growth(bundle: Bundle, old: int, new: int) -> list[bytes]:
    """The proof that the log of ``new`` records begins with the log of ``old`` records."""
    return roots_of_ranges(consistency_ranges(old, new), read_leaves(bundle))
