"""Giving payloads back whole: deltas applied, blobs put in, everything verified."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format import delta
from reenact.format.canonical import decode, stored
from reenact.format.printed import unprinted
from reenact.store.blobs import Blobs

__all__ = ["Resolver", "blob_references", "is_delta", "short_digest"]

_DELTA_START = b'{"$delta":'
_BLOB_MARK = b'"$blob":'
_SHOWN_MARK = b'"$json":'
_CHECKED = 16
"""Hex digits that say whether a delta was applied rightly. Whether somebody has changed the log is
what the hash of all of it says."""
_DOLLAR = ord("$")  # a number is found in bytes ten times as fast as a byte string


def short_digest(digest: bytes) -> str:
    """What a delta says of the payload with this sha256."""
    return f"sha256:{digest.hex()[:_CHECKED]}"


_SHORTEST = len("sha256:") + _CHECKED


def is_delta(data: bytes) -> bool:
    """Is this stored data what changed against earlier events?"""
    return data.startswith(_DELTA_START)


class _Delta(msgspec.Struct):
    digest: str
    of: list[int]
    ops: list[Any]


class _DeltaData(msgspec.Struct):
    delta: _Delta = msgspec.field(name="$delta")


_read_delta = msgspec.json.Decoder(_DeltaData)


class Resolver:
    """Gives payloads back whole.

    ``fetch(seq)`` returns what is stored as the data of event ``seq``. Recent payloads are remembered,
    so that reading in order applies one delta per event: each lane goes on where it was itself, so
    there have to be as many as there are lanes, and more where they are not read in step. Long ones
    are few.
    """

    REMEMBERED = 16
    REMEMBERED_BYTES = 8 << 20

    def __init__(self, blobs: Blobs, fetch: Callable[[int], bytes], *, shown: bool = False) -> None:
        """``shown``: the log is a tape, on which bodies of answers may stand as JSON."""
        self._blobs = blobs
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
        if max(step.of, default=0) < seq and self._recent.keys() >= set(step.of):
            # Read in order, as nearly always.
            payload = _apply(seq, step, self._recent)
            for base in step.of:
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
            last_use.update(dict.fromkeys(step.of if isinstance(step, _Delta) else (), number))
        have = {base: self._recent[base] for base in last_use if base in self._recent}
        for number in sorted(chain):
            step = chain[number]
            if isinstance(step, _Delta):
                have[number] = _apply(number, step, have)
                for base in step.of:
                    if last_use[base] == number:
                        self._remember(base, have.pop(base))
            else:
                have[number] = self.whole(number, step)
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
            for base in step.of:
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
        while self._size > self.REMEMBERED_BYTES and len(self._recent) > self.REMEMBERED:
            self._size -= len(self._recent.popitem(last=False)[1])

    def _inline(self, seq: int, data: bytes) -> bytes:
        try:
            return stored(self._expand(decode(data)))
        except (ValueRefused, ValueError) as error:
            raise _damaged(seq, str(error)) from None

    def _expand(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._expand(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$blob" not in value:
            return {name: self._expand(item) for name, item in value.items()}
        content = self._blobs.get(str(value["$blob"]))
        kind = value.get("kind")
        if kind == "text":
            return content.decode()
        if kind == "bytes":
            return {"$bytes": msgspec.to_builtins(content)}
        if kind == "json":
            return self._expand(decode(content))
        raise ValueRefused(f"a blob of the unknown kind {kind!r}")


def _apply(seq: int, step: _Delta, have: Mapping[int, bytes]) -> bytes:
    try:
        payload = delta.apply(b"".join(have[base] for base in step.of), step.ops)
    except ValueError as error:
        raise _damaged(seq, str(error)) from None
    whole = f"sha256:{hashlib.sha256(payload).hexdigest()}"
    if len(step.digest) < _SHORTEST or not whole.startswith(step.digest):
        raise _damaged(seq, "its delta does not rebuild what was recorded")
    return payload


def _as_text(seq: int, data: bytes) -> bytes:
    try:
        return unprinted(data)
    except ValueRefused as error:
        raise _damaged(seq, error.message) from None


def _parse_delta(seq: int, data: bytes) -> _Delta:
    try:
        return _read_delta.decode(data).delta
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise _damaged(seq, str(error)) from None


def _damaged(seq: int, reason: str) -> RecordingDamaged:
    return RecordingDamaged(
        f"event {seq} cannot be rebuilt: {reason}", place=f"event {seq}", seq=seq
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
            found[digest] = size if type(size) is int else -1
            if value.get("kind") == "json":
                waiting.append(decode(blobs.get(digest)))
        elif isinstance(value, dict):
            waiting.extend(value.values())
    return found
