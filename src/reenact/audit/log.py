"""A tenant's log: its signed heads, and the state that is needed to append to it.

A head is a checkpoint (c2sp.org/tlog-checkpoint, v1.0.0) in a signed note. It states the root of the
log at a size. A stored head allows checking later that the log still begins with the same records.

Pure: a server reads a :class:`Log` in a transaction, appends, and stores the result in the same
transaction. One writer at a time per log; the server ensures that.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final

import msgspec

from reenact.audit.keys import Key, Signer, check_name, strict_base64, strict_number
from reenact.audit.merkle import EMPTY_ROOT, HASH_SIZE, Frontier, Node, hash_leaf
from reenact.audit.note import MAX_NOTE, Note, parse_note, sign_note
from reenact.audit.record import Record, encode_record
from reenact.errors import AuditInvalid

__all__ = [
    "Appended",
    "Checkpoint",
    "Head",
    "Log",
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


class Log(msgspec.Struct, frozen=True):
    """The end of a tenant's log: O(log n) bytes for any length.

    ``last_at`` is the time of the last record, ``head_size`` the size of the last signed head.
    """

    origin: str
    frontier: Frontier = Frontier()
    last_at: int = 0
    head_size: int = 0

    @property
    def size(self) -> int:
        """Number of records, which is the ``seq`` of the next one."""
        return self.frontier.size

    def append(self, record: Record, at: int) -> Appended:
        """Number and stamp ``record``, and add it.

        ``at`` is the time in milliseconds. A clock that was set back does not show: no record is
        older than the one before it. Raises :class:`AuditInvalid` for what cannot be recorded.
        """
        if record.tenant != tenant_of(self.origin):
            raise AuditInvalid(
                f"a record of tenant {record.tenant} does not belong into {self.origin}",
                reason="record.foreign",
            )
        stamped = msgspec.structs.replace(
            record, seq=self.size, at=max(at, self.last_at), prev_head_size=self.head_size
        )
        line = encode_record(stamped)
        frontier, nodes = self.frontier.append(hash_leaf(line))
        log = Log(self.origin, frontier, stamped.at, self.head_size)
        return Appended(log, stamped, line, nodes)

    def sign(self, signers: Sequence[Signer]) -> tuple[Log, Head]:
        """Return the log with a signed head of its current size, and the head."""
        head = sign_head(Checkpoint(self.origin, self.size, self.frontier.root()), signers)
        return Log(self.origin, self.frontier, self.last_at, self.size), head


class Appended(msgspec.Struct, frozen=True):
    """Data to store after an append: the log's new end, the record's ``line``, and the completed
    nodes of the tree, starting with the record's leaf hash.
    """

    log: Log
    record: Record
    line: bytes
    nodes: tuple[Node, ...]
