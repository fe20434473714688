"""Faults of an exported log, and verification of its records: hashes, numbers and announced keys.

Each fault has a code of :data:`CODES`.

Missing, moved and duplicate records are detected from their numbers in one pass with bounded memory,
looking one record ahead. A record that is ahead of the count while the expected one follows is
remembered: it was moved if its own position turns out to be empty, otherwise it is a copy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, BinaryIO, Final, Literal, NamedTuple

import msgspec

from reenact.audit.bundle import CHECKPOINTS, LEAF_LINE, LEAVES, RECORDS, Bundle, KeySpan, leaf_line
from reenact.audit.keys import Key
from reenact.audit.log import parse_head, read_heads
from reenact.audit.merkle import hash_leaf
from reenact.audit.note import check_rotation
from reenact.audit.record import MAX_RECORD, Envelope, open_envelope
from reenact.errors import AuditInvalid

__all__ = [
    "CODES",
    "KEPT",
    "Anomaly",
    "Finding",
    "Findings",
    "KeyChain",
    "RecordsRead",
    "Report",
    "SequenceCheck",
    "check_records",
]

KEPT: Final = 100
"""Stored findings per code. Further findings are only counted."""

CODES: Final[dict[str, str]] = {
    "record.edited": "a record does not match its hash",
    "record.deleted": "records between other records are missing",
    "record.inserted": "the file contains a record that was never in the log",
    "record.duplicate": "a record occurs twice",
    "record.reordered": "a record is not at its original position",
    "record.backdated": "a record is older than the one before it",
    "record.malformed": "a line is not a record in canonical form",
    "record.foreign": "a record belongs to another tenant",
    "record.chain": "a record names a head that cannot have existed before it",
    "log.truncated": "the log has fewer records than a head or the hashes require",
    "log.forked": "the log does not begin with the records of the pinned head",
    "log.unsigned": "no head covers the last records",
    "leaves.malformed": "the file of hashes cannot be read",
    "head.malformed": "a head cannot be read",
    "head.signature": "a head was changed after it was signed",
    "head.key": "a head is not signed by the key of the log at that size",
    "head.origin": "a head belongs to a different log",
    "head.mismatch": "the root of a head does not match the records",
    "head.order": "a head is smaller than the one before it",
    "head.missing": "a head that a record names is missing",
    "key.untrusted": "none of the keys given is a key of this log",
    "key.rotation": "a key change is not announced correctly",
    "pinned.invalid": "the pinned head does not belong to this log",
    "manifest.mismatch": "the manifest does not match the content",
}
"""Stable: a code never changes its meaning."""


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A fault in the export. It concerns record ``seq``, or records from ``seq`` up to but not
    including ``until``. Without ``seq``, it concerns the complete export."""

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


_MOST: Final = 10_000
"""Gaps, and records that ran ahead, that are kept in mind."""


class Anomaly(NamedTuple):
    """Records from ``seq`` up to and without ``until``."""

    kind: Literal["deleted", "duplicate", "reordered"]
    seq: int
    until: int


class SequenceCheck:
    """Feed it the number of every record; ``expected`` is the one that should come next."""

    def __init__(self) -> None:
        self.expected = 0
        self._gaps: list[tuple[int, int]] = []
        self._early: set[int] = set()

    def place(self, seq: int, following: int | None) -> Iterator[Anomaly]:
        """Return the anomalies of a record, given that the next one is ``following``."""
        if seq != self.expected:
            yield from self._catch_up()
        if seq == self.expected:
            if seq in self._early:
                self._early.remove(seq)
                yield _one("duplicate", seq)
            self.expected += 1
        elif seq < self.expected:
            yield _one("reordered" if self._fill(seq) else "duplicate", seq)
            yield from self._forget()
        elif seq in self._early:
            yield _one("duplicate", seq)
        elif following == self.expected and len(self._early) < _MOST:
            self._early.add(seq)
        else:
            yield from self._skip_to(seq)
            self.expected += 1

    def end(self) -> Iterator[Anomaly]:
        """Return the anomalies that are only known after the last record.

        Missing records after the last one are not included: compare ``expected`` with the expected
        size.
        """
        yield from self._catch_up()
        if self._early:
            yield from self._skip_to(max(self._early) + 1)
        for start, end in self._gaps:
            yield Anomaly("deleted", start, end)
        self._gaps = []

    def _catch_up(self) -> Iterator[Anomaly]:
        """Past the places whose records ran ahead."""
        while self.expected in self._early:
            self._early.remove(self.expected)
            yield _one("reordered", self.expected)
            self.expected += 1

    def _skip_to(self, seq: int) -> Iterator[Anomaly]:
        for ahead in sorted(found for found in self._early if found < seq):
            if ahead > self.expected:  # else the one before it was caught up with, and so was it
                self._add_gap(self.expected, ahead)
                self.expected = ahead
                yield from self._catch_up()
        self._add_gap(self.expected, seq)
        self.expected = seq
        yield from self._forget()

    def _forget(self) -> Iterator[Anomaly]:
        """Give up the first of too many gaps: what is missing there is not waited for."""
        while len(self._gaps) > _MOST:
            start, end = self._gaps.pop(0)
            yield Anomaly("deleted", start, end)

    def _add_gap(self, start: int, end: int) -> None:
        if start < end:
            self._gaps.append((start, end))

    def _fill(self, seq: int) -> bool:
        """Was ``seq`` missing so far?"""
        at = bisect_right(self._gaps, (seq, self.expected)) - 1
        if at < 0 or not self._gaps[at][0] <= seq < self._gaps[at][1]:
            return False
        start, end = self._gaps.pop(at)
        for left, right in ((seq + 1, end), (start, seq)):
            if left < right:
                self._gaps.insert(at, (left, right))
        return True


def _one(kind: Literal["duplicate", "reordered"], seq: int) -> Anomaly:
    return Anomaly(kind, seq, seq + 1)


class KeyChain:
    """Checker of key rotations: announced keys must match the listed ones."""

    def __init__(self, spans: tuple[KeySpan, ...], findings: Findings) -> None:
        self._listed = iter(spans[1:])
        self._key: Key = spans[0].key
        self._findings = findings

    def rotate(self, seq: int, note: str) -> None:
        """The record ``seq`` announces a key."""
        try:
            self._key = check_rotation(note, seq, self._key)
        except AuditInvalid as error:
            self._findings.add("key.rotation", f"record {seq}: {error.message}", seq)
            return
        if next(self._listed, None) != KeySpan(seq + 1, self._key):
            self._findings.add(
                "key.rotation", f"record {seq} announces a key that is not listed for it", seq
            )

    def end(self) -> None:
        """After the last record."""
        for span in self._listed:
            self._findings.add(
                "key.rotation", f"no record announces the key {span.key.to_text()}", span.start
            )


_CHUNK: Final = 1024
_SAID: Final = {
    "deleted": "{} is missing",
    "duplicate": "{} occurs twice",
    "reordered": "{} is not at its original position",
}


class RecordsRead(msgspec.Struct):
    """Result of checking the records, besides faults: times of the first and last record."""

    first_at: int | None = None
    last_at: int | None = None


class _Line(msgspec.Struct, frozen=True):
    """One line at its position in the file. ``envelope`` is None if it is not a record; ``why`` is
    the reason.
    """

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
        return _Line(at, hash_leaf(leaf), None, "the line has no line break or is too long")
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
        self._order = SequenceCheck()
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

    def _tell(self, oddities: Iterator[Anomaly]) -> None:
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
    """Return the sizes of all readable heads. Unreadable heads are reported elsewhere."""
    with bundle.open(CHECKPOINTS) as file:
        heads = read_heads(file)
        while True:
            try:
                yield parse_head(next(heads)).size
            except AuditInvalid:
                continue
            except StopIteration:
                return
