"""The records of an export, each compared with its hash, its number and the record before it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import BinaryIO, Final

import msgspec

from reenact.audit.bundle import CHECKPOINTS, LEAF_LINE, LEAVES, RECORDS, Bundle, leaf_line
from reenact.audit.checkpoint import parse_head, read_heads
from reenact.audit.findings import Findings
from reenact.audit.merkle import hash_leaf
from reenact.audit.order import Oddity, Order
from reenact.audit.record import MAX_RECORD, Envelope, open_envelope
from reenact.audit.verify_keys import KeyChain
from reenact.errors import AuditInvalid

__all__ = ["RecordsRead", "check_records"]

_CHUNK: Final = 1024
_SAID: Final = {
    "deleted": "{} is not there",
    "duplicate": "{} stands there twice",
    "reordered": "{} stands in another place than it was written at",
}


class RecordsRead(msgspec.Struct):
    """What was found besides faults: times of the first and last record."""

    first_at: int | None = None
    last_at: int | None = None


class _Line(msgspec.Struct, frozen=True):
    """One line at its place in the file. ``envelope`` is None when it is no record: see ``why``."""

    at: int
    hash: bytes
    envelope: Envelope | None
    why: str = ""


def check_records(bundle: Bundle, tenant: str, findings: Findings) -> RecordsRead:
    """Look at every record once, in bounded memory."""
    with (
        closing(_lines(bundle)) as lines,
        closing(_head_sizes(bundle)) as sizes,
        bundle.open(LEAVES) as leaves,
    ):
        hashes = _Leaves(leaves, bundle.size(LEAVES) // LEAF_LINE)
        check = _Check(tenant, hashes, sizes, KeyChain(bundle.keys, findings), findings)
        line = next(lines, None)
        while line is not None:
            following = next(lines, None)
            check.line(line, _seq(following))
            line = following
        check.end()
        return check.read


def _seq(line: _Line | None) -> int | None:
    return line.envelope.seq if line is not None and line.envelope is not None else None


def _lines(bundle: Bundle) -> Generator[_Line]:
    with bundle.open(RECORDS) as file:
        at = 0
        while data := file.readline(MAX_RECORD + 2):
            yield _line(at, data)
            while not data.endswith(b"\n") and (data := file.readline(MAX_RECORD)):
                pass  # the rest of a line that is too long to be a record
            at += 1


def _line(at: int, data: bytes) -> _Line:
    leaf = data.removesuffix(b"\n")
    if leaf == data:
        return _Line(at, hash_leaf(leaf), None, "it does not end, or is too long")
    try:
        return _Line(at, hash_leaf(leaf), open_envelope(leaf))
    except AuditInvalid as error:
        return _Line(at, hash_leaf(leaf), None, error.message)


class _Check:
    def __init__(
        self,
        tenant: str,
        leaves: _Leaves,
        head_sizes: Iterator[int],
        keys: KeyChain,
        findings: Findings,
    ) -> None:
        self.read = RecordsRead()
        self._tenant = tenant
        self._leaves = leaves
        self._head_sizes = head_sizes
        self._head_size = 0
        self._keys = keys
        self._findings = findings
        self._order = Order()
        self._last: Envelope | None = None
        self._complete = False  # does the last record have the last hash?

    def line(self, line: _Line, following: int | None) -> None:
        """One line; ``following`` is the number of the next one, None where it has none."""
        record = line.envelope
        if record is None:
            where = f"line {line.at + 1}"
            self._findings.add("record.malformed", f"{where}: {line.why}", self._order.expected)
            if following != self._order.expected:
                self._order.expected += 1  # it stands where a record stood
            return
        here = self._leaves.has(line.hash, line.at)
        self._complete = self._complete or (here and line.at == self._leaves.count - 1)
        genuine = here or self._leaves.has(line.hash, record.seq)
        if not genuine and not self._stands_for_another(record, following):
            self._findings.add(
                "record.inserted", f"record {record.seq}: the log never had this one", record.seq
            )
            return
        if not genuine:
            self._findings.add(
                "record.edited", f"record {record.seq} is not what was hashed", record.seq
            )
        before = self._order.expected
        self._tell(self._order.place(record.seq, following))
        if before <= record.seq == self._order.expected - 1:
            self._in_place(record)

    def _stands_for_another(self, record: Envelope, following: int | None) -> bool:
        """Is a record that has no hash in the place of one that has, and not between two?"""
        expected = self._order.expected
        if following == record.seq or record.seq >= self._leaves.count or record.seq < expected:
            return False
        return record.seq == expected or following == record.seq + 1

    def _in_place(self, record: Envelope) -> None:
        """Compare a record with the one before it."""
        seq, last = record.seq, self._last
        if record.tenant != self._tenant:
            self._findings.add("record.foreign", f"record {seq} is of another tenant", seq)
        if last is not None and record.at < last.at:
            self._findings.add(
                "record.backdated",
                f"record {seq} is {last.at - record.at} ms older than the one before it",
                seq,
            )
        before = last.prev_head_size if last is not None else 0
        if not before <= record.prev_head_size <= seq:
            self._findings.add(
                "record.chain",
                f"record {seq} names a head of size {record.prev_head_size}, "
                f"which is not from {before} to {seq}",
                seq,
            )
        else:
            self._check_head_is_there(record)
        if record.action == "log.rotated":
            self._keys.rotate(seq, record.rotation)
        self._last = record
        self.read.first_at = record.at if self.read.first_at is None else self.read.first_at
        self.read.last_at = record.at

    def _check_head_is_there(self, record: Envelope) -> None:
        wanted = record.prev_head_size
        if self._last is not None and self._last.prev_head_size == wanted:
            return  # looked for already
        while self._head_size < wanted and (size := next(self._head_sizes, None)) is not None:
            self._head_size = size
        if wanted and self._head_size != wanted:
            self._findings.add(
                "head.missing",
                f"record {record.seq} names a head of size {wanted}, which is not there",
                record.seq,
            )

    def end(self) -> None:
        """After the last line."""
        self._tell(self._order.end())
        expected, count = self._order.expected, self._leaves.count
        if expected < count and not self._complete:
            self._findings.add(
                "log.truncated",
                f"there are hashes of {count} records, and only the first {expected} records",
                expected,
                count,
            )
        self._keys.end()

    def _tell(self, oddities: Iterator[Oddity]) -> None:
        for kind, seq, until in oddities:
            which = f"record {seq}" if until == seq + 1 else f"each of records {seq} to {until - 1}"
            self._findings.add(
                f"record.{kind}",
                _SAID[kind].format(which),
                seq,
                None if until == seq + 1 else until,
            )


class _Leaves:
    """The hash of any record, mostly of the next one."""

    def __init__(self, file: BinaryIO, count: int) -> None:
        self.count = count
        self._file = file
        self._chunks: dict[int, bytes] = {}

    def has(self, leaf: bytes, seq: int) -> bool:
        """Is this the hash of record ``seq``?"""
        if seq >= self.count:
            return False
        number, at = divmod(seq, _CHUNK)
        if number not in self._chunks:
            if len(self._chunks) > 1:  # two, for the place and the number of a record that moved
                del self._chunks[next(iter(self._chunks))]
            self._file.seek(number * _CHUNK * LEAF_LINE)
            self._chunks[number] = self._file.read(_CHUNK * LEAF_LINE)
        start = at * LEAF_LINE
        return self._chunks[number][start : start + LEAF_LINE] == leaf_line(leaf)


def _head_sizes(bundle: Bundle) -> Generator[int]:
    """Of the heads that can be read; the others are told of elsewhere."""
    with bundle.open(CHECKPOINTS) as file:
        heads = read_heads(file)
        while True:
            try:
                yield parse_head(next(heads)).size
            except AuditInvalid:
                continue
            except StopIteration:
                return
