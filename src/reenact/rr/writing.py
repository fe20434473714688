"""The writing half of a cassette: an entry becomes an event, if there is room for it."""

from __future__ import annotations

from reenact.errors import RrError
from reenact.format.canonical import digest
from reenact.format.event import Data, Draft, parse
from reenact.policy.redaction import PLACEHOLDER, blind
from reenact.rr import entries
from reenact.rr.entries import EVENT, Entry
from reenact.rr.meter import Meter
from reenact.rr.numbers import ENTRY_INVALID, OPEN_FAILED
from reenact.rr.opening import EntrySink, Ready
from reenact.store.redaction import prepare

__all__ = ["Writing", "check_key_is_left", "entry_data"]


class Writing:
    """Appends entries. Not thread-safe: the cassette's lock covers it."""

    def __init__(self, ready: Ready, sink: EntrySink, meter: Meter) -> None:
        self.appended = 0
        """How many entries have been written."""
        self._path = ready.path
        self._size_of = ready.size_of
        self._clock = ready.parts.clock
        self._redactor = ready.parts.redactor
        self._sink = sink
        self._meter = meter

    def append(self, entry: Entry) -> None:
        """Write ``entry``. Raises :class:`RrError` 2002 to 2008, and then nothing was written."""
        draft = Draft(type=EVENT, data=entry_data(entry), ts=self._clock(), op=entry.op)
        # Measured as it will stand in the file, so that what was written can also be opened.
        payload = prepare(draft, self._redactor).payload
        written = entries.read(parse(payload), "what would be written")
        check_key_is_left(entry.key, written.key)
        size = self._size_of(written, payload, self._meter.entries)
        self._meter.check(written, size, f"append to {self._path.name}")
        if not self._sink.append(draft):
            raise self.failed("a warning has said why")
        self._meter.add(size)
        self.appended += 1

    def failed(self, why: str) -> RrError:
        """The error for an entry that cannot be written."""
        return RrError(
            OPEN_FAILED,
            f"the entry was not written to {self._path}: {why}",
            hint="close the handle; what was written before is kept",
        )


def entry_data(entry: Entry) -> Data:
    """The data of the event that holds ``entry``, before it is redacted."""
    names = {"source": entry.kind, "op": entry.op, "key": entries.key_text(entry.key)}
    fields = entries.fields_of(entry)
    return {**names, **fields, "valueHash": digest(fields["response"])}


def check_key_is_left(given: bytes, written: bytes) -> None:
    """Raise :class:`RrError` 2008 for a key that is nothing but a secret: it would match every
    other one."""
    if given != written and blind(written.decode("utf-8", "replace")) == PLACEHOLDER:
        raise RrError(
            ENTRY_INVALID,
            "redaction takes the whole key away, and entries could not be told apart",
            hint="write a digest as sha256:<64 hex>, which is kept; or a key without secrets",
        )
