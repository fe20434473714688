"""Encoder of events: redacts them, and stores payloads inline, as a delta, or with blobs."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from pathlib import Path

import msgspec
import orjson

from reenact.errors import ValueRefused
from reenact.format import delta
from reenact.format.canonical import digest, digest_bytes, exact
from reenact.format.content_hash import has_volatile_parts
from reenact.format.event import ON_EVERY_LINE, Data, Draft
from reenact.format.readable_body import to_readable
from reenact.policy.redaction.redactor import Mark, Redactor
from reenact.store.blobs import Blobs
from reenact.store.payload_decoder import BESIDE, body_text, short_digest

__all__ = ["BLOB_THRESHOLD", "PayloadEncoder", "Prepared", "prepare"]

BLOB_THRESHOLD = 64 * 1024

_LONG = {"llm_request": 4096, "llm_response": 0}
"""From which length on a tenth that is saved is enough; otherwise it has to be half. Conversations are
long, and what they repeat is most of them; elsewhere time counts for more."""


_LONGEST_LITERAL = 512
"""Largest member in bytes that is repeated next to a delta. Names, ids, hashes and counts are
shorter.
"""


class _Last(msgspec.Struct):
    """The last payload of one (type, lane, operation)."""

    seq: int
    payload: bytes
    depth: int = 0
    misses: int = 0
    skip: int = 0


class PayloadEncoder:
    """Decides how each payload is stored. Not thread-safe: the writer's lock covers it."""

    SMALLEST = 512
    """Payloads below this are never worth a reference."""
    DEEPEST = 1000
    """A chain of deltas ends here, so that reading one event never costs more than this."""
    KEPT_BYTES = 32 * 1024 * 1024
    SIDE_BYTES = 64 * 1024
    LARGEST = 16 * 1024 * 1024
    """Payloads above this are neither a delta nor the base of one: readers limit what an event expands to."""

    def __init__(
        self,
        blobs: Blobs,
        *,
        threshold: int = BLOB_THRESHOLD,
        deltas: bool = True,
        sync_blobs: bool = False,
        shows: bool = False,
    ) -> None:
        """``shows``: JSON in the body of an answer is stored as JSON, for people to read."""
        self._blobs = blobs
        self._threshold = threshold
        self._deltas = deltas
        self._sync = sync_blobs
        self._shows = shows
        self.smallest = 0 if shows else min(self.SMALLEST, threshold + 1)
        """Payloads below this are stored as they are: no need to call :meth:`pack`."""
        self._last: OrderedDict[tuple[str, str, str], _Last] = OrderedDict()
        self._side: OrderedDict[tuple[str, str], _Last] = OrderedDict()
        self._kept = 0
        self.new_files: list[Path] = []
        self.used_deltas = False

    def pack(self, seq: int, draft: Draft, payload: bytes, digest: bytes = b"") -> bytes:
        """Return the bytes to write as the data of event ``seq``.

        ``digest`` is the sha256 of ``payload`` if it is already known. Raises OSError when a blob
        cannot be written. ``draft.data`` is never used, because it has not been redacted.
        """
        result = None
        if self._deltas and self.SMALLEST <= len(payload) <= self.LARGEST:
            result = self._delta(seq, draft, payload, digest)
        if result is None:
            result = self._with_blobs(payload) if len(payload) > self._threshold else payload
        if self._shows and result is payload:
            return to_readable(payload)
        return result

    def forget(self) -> None:
        """Refer to nothing that was written so far."""
        self._last.clear()
        self._side.clear()
        self._kept = 0

    # Repetition

    def _delta(self, seq: int, draft: Draft, payload: bytes, digest: bytes) -> bytes | None:
        kin = (draft.type, draft.lane, draft.op)
        last = self._last.get(kin)
        result = None
        if last is None:
            last = self._last[kin] = _Last(seq, payload)
            self._kept += len(payload)
        else:
            size = len(payload)
            worth = size * (0.9 if size >= _LONG.get(draft.type, size + 1) else 0.5)
            result = self._try(last, draft.type, payload, self._side.get(kin[1:]), digest, worth)
            self._kept += len(payload) - len(last.payload)
            last.seq, last.payload = seq, payload
            self._last.move_to_end(kin)
        self._side[kin[1:]] = last
        self._side.move_to_end(kin[1:])
        if self._kept > self.KEPT_BYTES or len(self._side) > len(self._last):
            self._drop_oldest()
        return result

    def _try(
        self,
        last: _Last,
        kind: str,
        payload: bytes,
        side: _Last | None,
        digest: bytes,
        worth: float,
    ) -> bytes | None:
        """``payload`` as a delta on ``last`` and ``side``, if that takes ``worth`` bytes at most."""
        depth, last.depth = last.depth, 0
        if depth >= self.DEEPEST:
            return None
        if last.skip:
            last.skip -= 1
            return None
        of, aside = [last.seq], b""
        if side is not None and side.seq > last.seq and self._is_handy(side):
            # A model's answer is JSON in a text, and comes back as JSON in the next request.
            text = body_text(side.payload) if kind == "llm_request" else None
            of.append(side.seq if text is None else -side.seq)
            aside = side.payload if text is None else text
            depth = max(depth, side.depth)
        literal = _literal(kind, payload)
        if literal:
            of.append(BESIDE)
            aside += b"{%b}" % literal[1:]
        ops = delta.shorten(delta.diff(last.payload, payload, aside))
        digest = digest or hashlib.sha256(payload).digest()
        step = {"digest": short_digest(digest), "of": of, "ops": ops}
        result = orjson.dumps({"$delta": step}, option=orjson.OPT_SORT_KEYS)
        if len(result) > worth:
            # Payloads without repetition are not tried every time: 1, 2, 4 … up to 64 events are
            # skipped.
            last.misses = min(last.misses + 1, 6)
            last.skip = 2**last.misses
            return None
        last.misses = 0
        last.depth = depth + 1
        self.used_deltas = True
        return result[:-1] + literal + b"}"

    def _is_handy(self, side: _Last) -> bool:
        return len(side.payload) <= self.SIDE_BYTES and side.depth < self.DEEPEST

    def _drop_oldest(self) -> None:
        while self._kept > self.KEPT_BYTES and len(self._last) > 1:
            _, dropped = self._last.popitem(last=False)
            self._kept -= len(dropped.payload)
        while len(self._side) > len(self._last):
            self._side.popitem(last=False)

    # Blobs

    def _with_blobs(self, payload: bytes) -> bytes:
        """Return ``payload`` with its large parts replaced, from the inside out.

        Small parts are never decoded, because their encoding is already the stored form.
        """
        members = _members.decode(payload)
        return _joined({name: self._shrink(bytes(item)) for name, item in members.items()})

    def _shrink(self, encoded: bytes) -> bytes:
        if len(encoded) <= self._threshold:
            return encoded
        if encoded.startswith(b'"'):
            content = _text.decode(encoded).encode()
            return self._blob(content, "text") if len(content) > self._threshold else encoded
        if encoded.startswith(b"["):
            items = _items.decode(encoded)
            small = self._threshold
            encoded = b"[%b]" % b",".join(
                part if len(part) <= small else self._shrink(part) for part in map(bytes, items)
            )
        elif encoded.startswith(b"{"):
            members = _members.decode(encoded)
            if members.keys() == {"$bytes"}:
                return self._blob(_base64.decode(members["$bytes"]), "bytes")
            encoded = _joined({name: self._shrink(bytes(item)) for name, item in members.items()})
        else:
            return encoded  # a number
        return self._blob(encoded, "json") if len(encoded) > self._threshold else encoded

    def _blob(self, content: bytes, kind: str) -> bytes:
        digest, file = self._blobs.put(content, sync=self._sync)
        if file is not None:
            self.new_files.append(file)
        return orjson.dumps({"$blob": digest, "kind": kind, "size": len(content)})


_text = msgspec.json.Decoder(str)
_base64 = msgspec.json.Decoder(bytes)
_items = msgspec.json.Decoder(list[msgspec.Raw])
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _literal(kind: str, payload: bytes) -> bytes:
    """Return the members that are repeated next to a delta, each preceded by a comma.

    Readers that resolve deltas skip them, because the delta rebuilds the complete payload.
    """
    names = ON_EVERY_LINE.get(kind)
    if names is None:
        return b""
    members = _members.decode(payload)
    found = {name: members[name] for name in sorted(names) if name in members}
    return b"".join(
        b",%b:%b" % (orjson.dumps(name), bytes(item))
        for name, item in found.items()
        if len(item) <= _LONGEST_LITERAL
    )


def _joined(members: dict[str, bytes]) -> bytes:
    return b"{%b}" % b",".join(
        b"%b:%b" % (orjson.dumps(name), encoded) for name, encoded in members.items()
    )


class Prepared(msgspec.Struct, frozen=True):
    """A redacted event that is safe to write.

    ``varies``: the payload has parts that do not count when runs are compared. ``received`` are
    redacted values that the program received and a replay needs; they can only be written sealed.
    ``warning`` is a message for the user.
    """

    payload: bytes
    varies: bool = False
    received: tuple[Mark, ...] = ()
    warning: str = ""


_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

# Parts of an event that the program received. The other parts are what it sent.
_RECEIVED = {
    "llm_response": ("$",),
    "tool_result": ("$",),
    "state_mutation": ("$.details.variables",),
    "nondeterministic": ("$.response", "$.value", "$.values", "$.first", "$.columns", "$.error"),
}


def prepare(event: Draft, redactor: Redactor) -> Prepared:
    """Encode and redact. Most events pass the gate and are encoded once."""
    try:
        payload = exact(event.data)
    except ValueRefused as error:  # the path names keys, and a key can be anything
        raise ValueRefused(error.reason, redactor.text(error.path), hint=error.hint) from None
    gated = not redactor.spares_gate(payload)
    if redactor.profile == "none" or (gated and not redactor.suspects(payload)):
        return Prepared(payload, has_volatile_parts(event.data))
    redacted = redactor.redact(event.data, gated=gated)
    received = tuple(mark for mark in redacted.marks if _is_received(event.type, mark.path))
    data: Data = redacted.value
    if "rawHash" in data and any(_is_in(mark.path, "$.request") for mark in redacted.marks):
        # A digest of the sent value would allow guessing the secret.
        data = {name: item for name, item in data.items() if name != "rawHash"}
    if received:
        # A recording that is redacted again has marks of its own already.
        before = data.get("redacted")
        known = filter(_is_text, before) if isinstance(before, list) else ()
        data = {**data, "redacted": sorted({*known, *(mark.path for mark in received)})}
    payload = exact(_hashed_anew(data, redacted.marks))
    survivors = redactor.survivors(payload, gated=gated)
    if survivors:
        return _withhold(event, payload, survivors)
    return Prepared(payload, has_volatile_parts(data), received)


def _hashed_anew(data: Data, marks: tuple[Mark, ...]) -> Data:
    """Replace the hash of a redacted value, because the hash of a short secret would reveal it."""
    name = "response" if "response" in data else "value"
    if "valueHash" not in data or not any(_is_in(mark.path, f"$.{name}") for mark in marks):
        return data
    return {**data, "valueHash": digest(data.get(name))}


def _is_text(item: object) -> bool:
    return isinstance(item, str)


def _is_received(kind: str, path: str) -> bool:
    return any(_is_in(path, part) for part in _RECEIVED.get(kind, ()))


def _is_in(path: str, part: str) -> bool:
    return path == part or part == "$" or path.startswith((f"{part}.", f"{part}["))


def _withhold(event: Draft, payload: bytes, survivors: tuple[str, ...]) -> Prepared:
    """Fail closed: something that looks like a secret is still there, so none of it is written."""
    names = ", ".join(survivors)
    note: Data = {
        "withheld": {
            "digest": digest_bytes(payload),
            "reason": f"secret-like text survived redaction: {names}",
            "size": len(payload),
        }
    }
    key = event.data.get("key")
    if isinstance(key, str) and _DIGEST.fullmatch(key):
        note["key"] = key
    return Prepared(
        exact(note),
        warning=f"the payload of a {event.type} event was not written, because text that looks "
        f"like a secret ({names}) survived redaction; only its digest was stored",
    )
