"""Checkpoints (c2sp.org/tlog-checkpoint, v1.0.0): the head of a log, in a signed note.

A head states the root of the log at a size. A stored head allows checking later that the log still
begins with the same records.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

import msgspec

from reenact.audit.keys import Key, Signer, check_name, strict_base64, strict_number
from reenact.audit.merkle import EMPTY_ROOT, HASH_SIZE
from reenact.audit.note import MAX_NOTE, Note, parse_note, sign_note
from reenact.errors import AuditInvalid

__all__ = [
    "Checkpoint",
    "Head",
    "open_head",
    "origin_of",
    "parse_head",
    "read_heads",
    "sign_head",
    "tenant_of",
]

_MIDDLE: Final = "/audit/"


class Checkpoint(msgspec.Struct, frozen=True):
    """The head of the log ``origin``: ``root`` is over its first ``size`` records."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    def to_text(self) -> str:
        """The text that is signed."""
        lines = (self.origin, str(self.size), b64encode(self.root).decode(), *self.extensions)
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def from_text(cls, text: str) -> Checkpoint:
        """Read the text of a note strictly. Raises :class:`AuditInvalid`."""
        if not text.endswith("\n"):
            raise _malformed("its last line does not end")
        lines = text[:-1].split("\n")
        if len(lines) < 3 or not all(lines):
            raise _malformed("it has at least three lines, none of them empty")
        origin, number, encoded, *extensions = lines
        size = strict_number(number)
        if size is None:
            raise _malformed("its second line is not a size")
        root = strict_base64(encoded)
        if root is None or len(root) != HASH_SIZE:
            raise _malformed("its third line is not the base64 of a root hash")
        if size == 0 and root != EMPTY_ROOT:
            raise _malformed("a log without records has another root")
        return cls(origin, size, root, tuple(extensions))


class Head(msgspec.Struct, frozen=True):
    """A checkpoint and the note it came in. Only :func:`open_head` has verified it."""

    checkpoint: Checkpoint
    note: Note

    @property
    def size(self) -> int:
        """Number of covered records."""
        return self.checkpoint.size

    @property
    def root(self) -> bytes:
        """The root over them."""
        return self.checkpoint.root

    def to_text(self) -> str:
        """The whole note."""
        return self.note.to_text()


def origin_of(deployment: str, tenant: str) -> str:
    """The name of a tenant's log, and of the keys that sign it: ``DEPLOYMENT/audit/TENANT``."""
    origin = f"{deployment}{_MIDDLE}{tenant}"
    check_name(origin)
    if not deployment or not tenant or tenant_of(origin) != tenant:
        raise AuditInvalid(
            "a deployment is not empty, nor a tenant, and a tenant has no slash",
            reason="origin.malformed",
        )
    return origin


def tenant_of(origin: str) -> str:
    """Whose log it is; empty when ``origin`` is not one of ours."""
    deployment, middle, tenant = origin.rpartition(_MIDDLE)
    return tenant if deployment and middle and "/" not in tenant else ""


def sign_head(checkpoint: Checkpoint, signers: Sequence[Signer]) -> Head:
    """The signed head. Raises :class:`AuditInvalid` when a signer has not the name of the log."""
    for signer in signers:
        if signer.key.name != checkpoint.origin:
            raise AuditInvalid(
                f"a key named {signer.key.name} cannot sign for the log {checkpoint.origin}",
                reason="key.name",
                hint="use signer.named(origin)",
            )
    Checkpoint.from_text(checkpoint.to_text())
    return Head(checkpoint, sign_note(checkpoint.to_text(), signers))


def parse_head(data: bytes) -> Head:
    """Read a head; nothing is verified. Raises :class:`AuditInvalid`."""
    note = parse_note(data)
    return Head(Checkpoint.from_text(note.text), note)


def open_head(data: bytes, keys: Iterable[Key]) -> Head:
    """A head that one of ``keys`` signed, which has the name of the log."""
    head = parse_head(data)
    signed = head.note.signed_by(keys)
    if all(key.name != head.checkpoint.origin for key in signed):
        raise AuditInvalid(
            f"signed by {signed[0].name}, which is not the log {head.checkpoint.origin}",
            reason="head.key",
            hint="give the verifier key of this log",
        )
    return head


def read_heads(file: BinaryIO) -> Iterator[bytes]:
    """The notes of a file of heads, with an empty line between them, one at a time.

    The text of a head has no empty lines, so every second one of the file ends a note. Raises
    :class:`AuditInvalid` for one that is larger than a note can be.
    """
    lines: list[bytes] = []
    length = 0
    signatures = False
    while line := file.readline(MAX_NOTE):
        length += len(line)
        if length > MAX_NOTE:
            raise _malformed(f"it has more than {MAX_NOTE} bytes")
        if line == b"\n" and signatures:
            yield b"".join(lines)
            lines, length, signatures = [], 0, False
            continue
        signatures = signatures or line == b"\n"
        lines.append(line)
    if lines:
        yield b"".join(lines)


def _malformed(why: str) -> AuditInvalid:
    return AuditInvalid(f"not a checkpoint: {why}", reason="checkpoint.malformed")
