"""Proof that one record is in the log (c2sp.org/tlog-proof, v1), also extracted from an export.

The record is the ``extra`` data of the file. The file therefore contains both the record and the proof
of inclusion. Only the verifier key must come from a different source.
"""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from reenact.audit.bundle import CHECKPOINTS, RECORDS, Bundle, read_leaves
from reenact.audit.keys import Key, strict_base64, strict_number
from reenact.audit.log import Head, open_head, parse_head, read_heads, tenant_of
from reenact.audit.merkle import (
    check_inclusion,
    consistency_ranges,
    hash_leaf,
    inclusion_ranges,
    roots_of_ranges,
)
from reenact.audit.note import MAX_NOTE
from reenact.audit.record import MAX_RECORD, Envelope, open_envelope
from reenact.errors import AuditInvalid

__all__ = [
    "SUFFIX",
    "Proof",
    "check_proof",
    "last_head",
    "parse_proof",
    "prove_growth",
    "prove_record",
]

SUFFIX: Final = ".tlog-proof"
_TITLE: Final = "c2sp.org/tlog-proof@v1"
_MAX_PATH: Final = 64
_MAX_PROOF: Final = 2 * MAX_RECORD + 64 * _MAX_PATH + MAX_NOTE


class Proof(msgspec.Struct, frozen=True):
    """``path`` leads from the hash of ``leaf``, the record ``index``, to the root of ``head``."""

    leaf: bytes
    index: int
    path: tuple[bytes, ...]
    head: Head

    def to_text(self) -> str:
        """The file."""
        return "\n".join(
            [
                _TITLE,
                f"extra {b64encode(self.leaf).decode()}",
                f"index {self.index}",
                *(b64encode(node).decode() for node in self.path),
                "",
                self.head.to_text(),
            ]
        )


def parse_proof(data: bytes) -> Proof:
    """Read a proof strictly; nothing is verified. Raises :class:`AuditInvalid`."""
    if len(data) > _MAX_PROOF:
        raise _malformed("it is larger than a proof can be")
    above, cut, checkpoint = data.partition(b"\n\n")
    if not cut:
        raise _malformed("no empty line stands before a checkpoint")
    try:
        title, extra, index, *path = above.decode().split("\n")
    except ValueError:  # too few lines, or not UTF-8
        raise _malformed("it does not begin with a title, a record and an index") from None
    if title != _TITLE:
        raise _malformed(f"it does not begin with {_TITLE}")
    leaf = strict_base64(extra.removeprefix("extra ")) if extra.startswith("extra ") else None
    number = strict_number(index.removeprefix("index ")) if index.startswith("index ") else None
    if leaf is None or number is None:
        raise _malformed("its second line is not the record, or its third not the index")
    if len(path) > _MAX_PATH:
        raise _malformed(f"its path has more than {_MAX_PATH} nodes")
    nodes = [strict_base64(node) for node in path]
    if None in nodes:
        raise _malformed("a node of its path is not base64")
    return Proof(leaf, number, tuple(filter(None, nodes)), parse_head(checkpoint))


def check_proof(data: bytes, keys: Iterable[Key]) -> tuple[Proof, Envelope]:
    """Return the proof and its record if a log that is signed by ``keys`` contains it.

    Raises :class:`AuditInvalid` if any part cannot be proven.
    """
    proof = parse_proof(data)
    head = open_head(proof.head.to_text().encode(), keys)
    check_inclusion(hash_leaf(proof.leaf), proof.index, head.size, head.root, proof.path)
    envelope = open_envelope(proof.leaf)
    if envelope.seq != proof.index:
        raise _wrong(f"the record calls itself {envelope.seq}, and is record {proof.index}")
    if envelope.tenant != tenant_of(head.checkpoint.origin):
        raise _wrong(f"the record is of tenant {envelope.tenant}, and the log of another one")
    return proof, envelope


def _wrong(why: str) -> AuditInvalid:
    return AuditInvalid(
        why, reason="proof.record", hint="the log itself is at fault; verify a whole export of it"
    )


def _malformed(why: str) -> AuditInvalid:
    return AuditInvalid(f"not a proof: {why}", reason="proof.malformed")


def last_head(bundle: Bundle) -> Head:
    """Return the last head without verifying its signature."""
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
