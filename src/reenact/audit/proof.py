"""One record and all that is needed to show that it is in the log (c2sp.org/tlog-proof, v1).

The record itself is the ``extra`` data of the file. So the file says by itself what happened, and
that the log has it; only the verifier key must come from elsewhere.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Final

import msgspec

from reenact.audit.checkpoint import Head, open_head, parse_head, tenant_of
from reenact.audit.keys import Key
from reenact.audit.merkle import hash_leaf
from reenact.audit.note import MAX_NOTE
from reenact.audit.proving import check_inclusion
from reenact.audit.record import MAX_RECORD, Envelope, open_envelope
from reenact.audit.spelling import strict_base64, strict_number
from reenact.errors import AuditInvalid

__all__ = ["SUFFIX", "Proof", "check_proof", "parse_proof"]

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
    """The proof and what its record says, when a log that ``keys`` sign has it.

    Raises :class:`AuditInvalid` when anything of that cannot be shown.
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
