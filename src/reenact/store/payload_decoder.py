"""Decoder of stored payloads: applies deltas, inserts blobs, and verifies the result.

A delta copies bytes of earlier events and a payload can name one blob many times, so a few lines can
expand to gigabytes. The decoder adds up the sizes first and refuses a recording that exceeds its limits.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from reenact.errors import RecordingDamaged, UsageError, ValueRefused
from reenact.format import delta
from reenact.format.canonical import decode, stored
from reenact.format.readable_body import from_readable
from reenact.store.blobs import Blobs

__all__ = [
    "BESIDE",
    "EVENT_LIMIT",
    "RECORDING_LIMIT",
    "PayloadDecoder",
    "ReadLimits",
    "blob_references",
    "body_text",
    "is_delta",
    "limits_from",
    "short_digest",
]

EVENT_LIMIT: Final = "REENACT_EVENT_LIMIT"
"""Environment variable: MiB that one event expands to at most."""
RECORDING_LIMIT: Final = "REENACT_RECORDING_LIMIT"
"""Environment variable: MiB that all events of a recording expand to at most."""


class ReadLimits(msgspec.Struct, frozen=True):
    """Bytes that deltas and repeated blobs expand to, per event and per recording."""

    event: int = 64 << 20
    recording: int = 16 << 30


def limits_from(
    environ: Mapping[str, str] | None = None, defaults: ReadLimits | None = None
) -> ReadLimits:
    """Return the limits that the environment sets, otherwise ``defaults``.

    Raises :class:`UsageError` for a value that is not a positive whole number.
    """
    found = os.environ if environ is None else environ
    defaults = defaults or ReadLimits()
    if EVENT_LIMIT not in found and RECORDING_LIMIT not in found:
        return defaults
    return ReadLimits(
        event=_mebibytes(found, EVENT_LIMIT, defaults.event),
        recording=_mebibytes(found, RECORDING_LIMIT, defaults.recording),
    )


def _mebibytes(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text)):
        raise UsageError(
            f"{name} is {text[:40]!r}, expected a positive whole number of MiB",
            hint=f"set {name} to a number such as {default >> 20}, or remove it",
        )
    return int(text) << 20


BESIDE = 0
"""Among the bases of a delta: the fields next to it."""
_DELTA_START = b'{"$delta":'
_BLOB_MARK = b'"$blob":'
_SHOWN_MARK = b'"$json":'
_CHECKED = 16
"""Hex digits that check the result of a delta. The hash of the complete log detects edits."""
_LEAST_COPY = 4096
"""Bytes that a repeated blob counts for at least, because reading one takes time, too."""
_DEEPEST = 400
"""Lists, objects and JSON blobs inside each other; a payload has at most 200 of the first two."""
_OBJECT, _EMPTY, _TEXT = 232, 72, 56
"""Bytes of memory that an object, an empty one or a list, and a short text take when they are read."""
_READ_TIMES = 4
"""Memory that an expanded event takes while it is read, as a multiple of its size limit."""
_DOLLAR = ord("$")  # a number is found in bytes ten times as fast as a byte string


def short_digest(digest: bytes) -> str:
    """Return the shortened sha256 that a delta stores for its result."""
    return f"sha256:{digest.hex()[:_CHECKED]}"


_SHORTEST = len("sha256:") + _CHECKED


def is_delta(data: bytes) -> bool:
    """Is this stored data what changed against earlier events?"""
    return data.startswith(_DELTA_START)


class _Delta(msgspec.Struct):
    digest: str
    of: list[int]
    ops: list[Any]

    beside: bytes = b""
    """The fields next to ``$delta``, as an object."""

    @property
    def bases(self) -> list[int]:
        """The events that it is a change of, each as often as it is used."""
        return [abs(base) for base in self.of if base != BESIDE]


class _DeltaData(msgspec.Struct):
    delta: _Delta = msgspec.field(name="$delta")


class _Answer(msgspec.Struct):
    body: str


class _Answered(msgspec.Struct):
    response: _Answer


_read_delta = msgspec.json.Decoder(_DeltaData)
_read_answered = msgspec.json.Decoder(_Answered)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def body_text(payload: bytes) -> bytes | None:
    """The text ``response.body`` of a payload, if there is one."""
    try:
        return _read_answered.decode(payload).response.body.encode()
    except msgspec.DecodeError:
        return None


class PayloadDecoder:
    """Decoder that returns complete payloads.

    ``fetch(seq)`` returns the stored data of event ``seq``. Recent payloads are cached, so that
    reading in order applies one delta per event. Each lane continues its own payloads, so the cache
    needs an entry per lane, and more if lanes are not read in step. Long payloads are rare.
    """

    REMEMBERED = 16
    REMEMBERED_BYTES = 8 << 20
    HELD_EVENTS = 4
    """Payloads of the largest size that are held at the same time."""

    def __init__(
        self,
        blobs: Blobs,
        fetch: Callable[[int], bytes],
        *,
        shown: bool = False,
        limits: ReadLimits | None = None,
    ) -> None:
        """``shown``: the log is a tape, on which bodies of answers may stand as JSON."""
        self._blobs = blobs
        self._limits = limits or ReadLimits()
        self._counted = bytearray()
        """1 for each event that is part of the total, by its seq."""
        self._total = 0
        self._shown = shown
        self._fetch = fetch
        self._recent: OrderedDict[int, bytes] = OrderedDict()
        self._size = 0

    def whole(self, seq: int, data: bytes) -> bytes:
        """The whole payload of event ``seq``, whose stored data is ``data``."""
        if data.startswith(_DELTA_START):
            return self._undo(seq, data)
        if _DOLLAR not in data:
            return data
        if self._shown and _SHOWN_MARK in data:
            data = _as_text(seq, data)
        return self._inline(seq, data) if _BLOB_MARK in data else data

    def _undo(self, seq: int, data: bytes) -> bytes:
        """Apply the chain of deltas that ends in ``seq``."""
        known = self._recent.get(seq)
        if known is not None:
            return known
        step = _parse_delta(seq, data)
        bases = step.bases
        if max(bases, default=0) < seq and self._recent.keys() >= set(bases):
            # Read in order, as nearly always.
            payload = self._apply(seq, step, self._recent)
            for base in bases:
                self._recent.move_to_end(base)
            self._remember(seq, payload)
            return payload
        return self._undo_chain(seq, data)

    def _undo_chain(self, seq: int, data: bytes) -> bytes:
        """Oldest first, without recursion."""
        chain = self._chain(seq, data)
        last_use: dict[int, int] = {}
        for number in sorted(chain):
            step = chain[number]
            last_use.update(dict.fromkeys(step.bases if isinstance(step, _Delta) else (), number))
        have = {base: self._recent[base] for base in last_use if base in self._recent}
        held = sum(map(len, have.values()))
        for number in sorted(chain):
            step = chain[number]
            if isinstance(step, _Delta):
                have[number] = self._apply(number, step, have, held)
                held += len(have[number])
                for base in set(step.bases):
                    if last_use[base] == number:
                        held -= len(have[base])
                        self._remember(base, have.pop(base))
            else:
                have[number] = self.whole(number, step)
                held += len(have[number])
        self._remember(seq, have[seq])
        return have[seq]

    def _chain(self, seq: int, data: bytes) -> dict[int, _Delta | bytes]:
        chain: dict[int, _Delta | bytes] = {}
        waiting = [(seq, data)]
        while waiting:
            number, stored_data = waiting.pop()
            if not is_delta(stored_data):
                chain[number] = stored_data
                continue
            step = _parse_delta(number, stored_data)
            chain[number] = step
            for base in step.bases:
                if not 0 < base < number:
                    raise _damaged(number, f"refers to event {base}")
                if base not in chain and base not in self._recent:
                    waiting.append((base, self._fetch(base)))
        return chain

    def _remember(self, seq: int, payload: bytes) -> None:
        if seq in self._recent:
            self._recent.move_to_end(seq)
            return
        self._recent[seq] = payload
        self._size += len(payload)
        most = self.HELD_EVENTS * self._limits.event
        while self._size > self.REMEMBERED_BYTES and (
            len(self._recent) > self.REMEMBERED or (self._size > most and len(self._recent) > 1)
        ):
            self._size -= len(self._recent.popitem(last=False)[1])

    def _apply(self, seq: int, step: _Delta, have: Mapping[int, bytes], held: int = 0) -> bytes:
        """Apply one delta to bases that are in memory.

        Everything is added up before anything is joined: the bases side by side, the payload, the
        payloads that the chain ``held`` so far, and the total of the recording.
        """
        known = {base: _base(seq, step, base, have) for base in set(step.of)}
        bases = sum(len(known[base]) for base in step.of)
        try:
            size = delta.expanded_size(bases, step.ops)
        except ValueError as error:
            raise _damaged(seq, str(error)) from None
        if max(bases, size) > self._limits.event:
            raise _too_large(seq, "expands to", max(bases, size), EVENT_LIMIT)
        if held + size > self.HELD_EVENTS * self._limits.event:
            raise _too_large(seq, "needs earlier events of", held + size, EVENT_LIMIT)
        self._count(seq, size)
        payload = delta.apply(b"".join(known[base] for base in step.of), step.ops)
        whole = f"sha256:{hashlib.sha256(payload).hexdigest()}"
        if len(step.digest) < _SHORTEST or not whole.startswith(step.digest):
            raise _damaged(seq, "its delta does not rebuild what was recorded")
        self._check_values(seq, payload)
        return payload

    def _check_values(self, seq: int, payload: bytes) -> None:
        """Refuse an expanded payload of many small values, which takes far more memory than bytes."""
        most = _READ_TIMES * self._limits.event
        if len(payload) * _EMPTY <= most:
            return
        empty = payload.count(b"{}")
        size = _OBJECT * (payload.count(b"{") - empty) + _EMPTY * (empty + payload.count(b"["))
        size += _TEXT * (payload.count(b'"') - payload.count(b'\\"')) // 2
        if size > most:
            raise _too_large(seq, "expands to values of", size, EVENT_LIMIT)

    def _count(self, seq: int, size: int) -> None:
        """Add ``size`` to the total, once for each event however often it is read."""
        if len(self._counted) <= seq:
            self._counted.extend(bytes(max(seq + 1 - len(self._counted), len(self._counted))))
        if self._counted[seq]:
            return
        if self._total + size > self._limits.recording:
            total = self._total + size
            raise _too_large(seq, "expands the recording to", total, RECORDING_LIMIT)
        self._counted[seq] = 1
        self._total += size

    def _inline(self, seq: int, data: bytes) -> bytes:
        copies = _Copies(seq, self._blobs, self._limits.event)
        try:
            value = self._expand(decode(data), copies, _DEEPEST)
            self._count(seq, copies.size)
            payload = stored(value)
        except (ValueRefused, ValueError) as error:
            raise _damaged(seq, str(error)) from None
        if copies.size:
            self._check_values(seq, payload)
        return payload

    def _expand(self, value: Any, copies: _Copies, room: int) -> Any:
        """``value`` with its blobs put in; the result may be nested ``room`` deep."""
        if not isinstance(value, (list, dict)):
            return value
        if room == 0:
            raise ValueRefused(f"nested deeper than {_DEEPEST}")
        if isinstance(value, list):
            return [self._expand(item, copies, room - 1) for item in value]
        if "$blob" not in value:
            return {name: self._expand(item, copies, room - 1) for name, item in value.items()}
        digest = str(value["$blob"])
        copies.add(digest)
        content = self._blobs.get(digest)
        kind = value.get("kind")
        if kind == "text":
            return content.decode()
        if kind == "bytes":
            return {"$bytes": msgspec.to_builtins(content)}
        if kind == "json":
            # One less here, too: a blob that is nothing but another blob nests as well.
            return self._expand(decode(content), copies, room - 1)
        raise ValueRefused(f"a blob of the unknown kind {kind!r}")


class _Copies:
    """Counts the blobs that one event contains more than once.

    The first copy costs what it takes on the disk; each further one makes the event larger than the
    recording, as a copy operation of a delta does.
    """

    def __init__(self, seq: int, blobs: Blobs, most: int) -> None:
        self._seq = seq
        self._blobs = blobs
        self._most = most
        self._seen: set[str] = set()
        self.size = 0

    def add(self, digest: str) -> None:
        """Count a reference to ``digest``. Raises :class:`RecordingDamaged` above the limit."""
        if digest not in self._seen:
            self._seen.add(digest)
            return
        self.size += max(self._blobs.size(digest), _LEAST_COPY)
        if self.size > self._most:
            raise _too_large(self._seq, "repeats blobs of", self.size, EVENT_LIMIT)


def _as_text(seq: int, data: bytes) -> bytes:
    try:
        return from_readable(data)
    except ValueRefused as error:
        raise _damaged(seq, error.message) from None


def _parse_delta(seq: int, data: bytes) -> _Delta:
    try:
        step = _read_delta.decode(data).delta
        if BESIDE in step.of:
            members = _members.decode(data)
            del members["$delta"]
            step.beside = msgspec.json.encode(members)
        return step
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _damaged(seq, str(error)) from None


def _base(seq: int, step: _Delta, base: int, have: Mapping[int, bytes]) -> bytes:
    if base == BESIDE:
        return step.beside
    if base > 0:
        return have[base]
    text = body_text(have[-base])
    if text is None:
        raise _damaged(seq, f"event {-base} has no text response.body")
    return text


def _damaged(seq: int, reason: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"event {seq} cannot be rebuilt: {reason}", place=f"event {seq}", seq=seq
    )


def _too_large(seq: int, doing: str, size: int, setting: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"event {seq} {doing} {size} bytes, which is more than the limit",
        place=f"event {seq}",
        seq=seq,
        hint=f"if you trust the recording, raise {setting} (in MiB)",
    )


def blob_references(data: bytes, blobs: Blobs) -> dict[str, int]:
    """Every blob that stored ``data`` refers to, those inside JSON blobs too: digest → size."""
    found: dict[str, int] = {}
    if _BLOB_MARK not in data or is_delta(data):
        return found
    waiting = [decode(data)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, dict) and "$blob" in value:
            digest, size = str(value["$blob"]), value.get("size")
            known = digest in found
            found[digest] = size if type(size) is int else -1
            if value.get("kind") == "json" and not known:
                waiting.append(decode(blobs.get(digest)))
        elif isinstance(value, dict):
            waiting.extend(value.values())
    return found
