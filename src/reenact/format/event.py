"""The event envelope, version 1, the line it is written as, lane names, and delivery events.

The order of the fields is fixed and ``data`` is last, so that a writer encodes the payload once and
inserts it, and a reader can skip it. A lane (``0``, ``0.1``, ``0.1.2``) is the causal identity of a
task, thread or job. A delivery event only states when a result was handed to the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec
import orjson

from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.canonical import MAX_DEPTH, decode, digest_bytes, has_marks, plain, stored
from reenact.format.decoders import build_decoders

__all__ = [
    "CHUNK",
    "DROPPED",
    "LONGEST_CHUNK_RUN",
    "NO_VALUE",
    "ON_EVERY_LINE",
    "ROOT_LANE",
    "SCHEDULE",
    "STOPPED",
    "TYPES",
    "VERSION",
    "Draft",
    "Envelope",
    "Event",
    "Prefix",
    "TapePrefix",
    "check_lane",
    "chunk_delivery",
    "decode_line",
    "delivery_names",
    "lane_order",
    "parse",
    "parse_chunk_delivery",
    "unknown_fields",
]

ROOT_LANE = "0"

_LONGEST_LANE = 4_000  # characters; Python reads no integer of more than 4,300
_LANE = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*))*")


def check_lane(lane: str) -> str:
    """``lane`` itself, or :class:`ValueRefused`."""
    if len(lane) > _LONGEST_LANE or _LANE.fullmatch(lane) is None:
        raise ValueRefused(
            f"{lane[:80]!r} is not a lane", "$.lane", hint="numbers joined by dots, such as 0.1.2"
        )
    return lane


def lane_order(lane: str) -> tuple[int, ...]:
    """Sort key: parents before children, siblings by number."""
    return tuple(map(int, lane.split(".")))


VERSION: Final = 1

TYPES: Final = (
    "run_start",
    "run_end",
    "llm_request",
    "llm_response",
    "tool_call",
    "tool_result",
    "state_mutation",
    "nondeterministic",
)

ON_EVERY_LINE: Final[dict[str, tuple[str, ...]]] = {
    "llm_request": ("provider", "model", "inputHash", "toolSchemaHash"),
    "llm_response": ("provider", "model", "stopReason", "usage"),
    "tool_call": ("name", "callId"),
    "tool_result": ("name", "callId", "ok"),
    "nondeterministic": ("source", "key", "valueHash"),
    "state_mutation": ("type",),
}
"""Fields of ``data`` that each line of a log has literally, also where the payload is stored as a
delta: other readers of JSONL need nothing else to list model calls and tools."""

Data = dict[str, Any]


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Event before it has a sequence number: the input of a sink.

    ``ts`` is milliseconds since the epoch. ``parent`` is the seq of the enclosing call in the same
    process; across processes the lane identifies it. ``op`` names the operation (tool name,
    endpoint, model …). It is not stored and only helps the writer to find an earlier event that
    this one is likely to repeat. ``extra`` are envelope fields of a later minor version, which a
    rewrite preserves.
    """

    type: str
    data: Data
    ts: int
    lane: str = ROOT_LANE
    parent: int | None = None
    op: str = ""
    extra: dict[str, Any] = {}


class Head(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One line of the log up to its data."""

    version: int
    capture_id: str
    run_id: str
    seq: int
    ts: int
    type: str
    lane: str = ROOT_LANE
    parent: int | None = None


class Envelope(Head, frozen=True, kw_only=True, rename="camel", gc=False):
    """One line of the log, with ``data`` still encoded."""

    data: msgspec.Raw


build_decoders(Envelope)
_FIELDS = frozenset(Envelope.__struct_encode_fields__)
_REQUEST = b',"request":'


class Event(msgspec.Struct, eq=False, gc=False):
    """A recorded event. ``data`` is loaded (and its blobs verified) when it is first looked at.

    ``whole(seq, stored)`` returns the payload with every reference resolved. (A Struct, because
    a replay makes one per event and Python takes three times as long to make a plain object.)
    """

    _head: Head
    _stored: bytes
    _whole: Callable[[int, bytes], bytes]
    _data: Data | None = None

    version: ClassVar[int] = VERSION

    @property
    def capture_id(self) -> str:
        return self._head.capture_id

    @property
    def run_id(self) -> str:
        return self._head.run_id

    @property
    def seq(self) -> int:
        return self._head.seq

    @property
    def ts(self) -> int:
        return self._head.ts

    @property
    def type(self) -> str:
        return self._head.type

    @property
    def lane(self) -> str:
        return self._head.lane

    @property
    def parent(self) -> int | None:
        return self._head.parent

    @property
    def data(self) -> Data:
        """The payload as recorded: bytes are bytes, blobs and deltas are resolved.

        Raises :class:`RecordingDamaged` for what no writer writes.
        """
        if self._data is None:
            self._data = self._read(self.payload)
        return self._data

    def _read(self, payload: bytes) -> Data:
        data: Data = self._reading(parse, payload)
        return data

    def part(self, encoded: bytes) -> Any:
        """Return the decoded value of ``encoded``, a part of the payload."""
        return self._reading(_value, encoded)

    def _reading(self, read: Callable[[bytes], Any], encoded: bytes) -> Any:
        try:
            return read(encoded)
        except ValueRefused as error:
            raise RecordingDamaged(
                f"event {self.seq} cannot be read: {error.message}",
                place=f"event {self.seq}, field {error.path}",
            ) from None

    def asks(self, request: Any, encoded: bytes) -> bool:
        """Return whether ``request``, in its stored encoding, is the request in the payload.

        If so, ``data`` uses it and only the other fields are decoded. False can also mean that only
        complete decoding could decide.
        """
        payload = self.payload
        place = payload.find(_REQUEST)
        start = place + len(_REQUEST)
        end = start + len(encoded)
        # No other object precedes it, so this is a member of the payload itself.
        if place < 0 or payload.find(b"{", 1, place) >= 0:
            return False
        if not payload.startswith(encoded, start) or payload[end : end + 1] not in (b",", b"}"):
            return False
        if self._data is None:
            rest = self._read(payload[:place] + payload[end:])
            if "request" in rest:
                return False
            self._data = {**rest, "request": request}
        return True

    def let_go(self) -> None:
        """Release ``data`` for now. It is loaded again on the next access."""
        self._data = None

    @property
    def payload(self) -> bytes:
        """The payload in its stored encoding, whole."""
        return self._whole(self._head.seq, self._stored)

    def to_json(self) -> dict[str, Any]:
        """The envelope with its payload, in the documented order and JSON names."""
        whole: dict[str, Any] = {
            "version": self.version,
            "captureId": self.capture_id,
            "runId": self.run_id,
            "seq": self.seq,
            "ts": self.ts,
            "type": self.type,
        }
        if self.lane != ROOT_LANE:
            whole["lane"] = self.lane
        if self.parent is not None:
            whole["parent"] = self.parent
        whole["data"] = decode(self.payload)
        return whole

    def __repr__(self) -> str:
        return f"<Event {self.seq} {self.type} lane {self.lane}>"


def parse(payload: bytes) -> Data:
    """The data that a stored payload stands for."""
    data = _value(payload)
    if not isinstance(data, dict):
        raise ValueRefused("the data of an event is an object", "$.data")
    return data


def _value(encoded: bytes) -> Any:
    value = decode(encoded)
    return plain(value) if has_marks(encoded) else value


def decode_line(line: bytes) -> Any:
    """Read a whole line strictly. A payload may be as deep as any value, and stands one deeper."""
    return decode(line, deepest=MAX_DEPTH + 1)


def unknown_fields(line: bytes) -> dict[str, Any]:
    """The envelope fields of ``line`` that this version does not know."""
    return {name: item for name, item in decode_line(line).items() if name not in _FIELDS}


_KNOWN: Final = {name: orjson.dumps(name) for name in TYPES}


class Prefix:
    """Writes the part of a line before its payload, for one run."""

    __slots__ = ("_known", "_start")

    def __init__(self, capture_id: str, run_id: str) -> None:
        head = orjson.dumps({"version": VERSION, "captureId": capture_id, "runId": run_id})
        self._start = head[:-1] + b","
        self._known = _KNOWN

    def line(self, seq: int, draft: Draft, payload: bytes) -> bytes:
        """The complete line, newline included."""
        return self.head(seq, draft) + payload + b"}\n"

    def head(self, seq: int, draft: Draft) -> bytes:
        """Return the bytes in front of the payload. Raises :class:`ValueRefused` for an invalid
        envelope.
        """
        kind = self._known.get(draft.type) or _encoded_type(draft.type)
        middle = b""
        if draft.lane != ROOT_LANE:
            middle = b',"lane":"%b"' % check_lane(draft.lane).encode()
        if draft.parent is not None:
            if not 0 < draft.parent < seq:
                raise ValueRefused(f"event {draft.parent} cannot enclose event {seq}", "$.parent")
            middle += b',"parent":%d' % self._parent(seq, draft.parent)
        if draft.extra:
            taken = _FIELDS & draft.extra.keys()
            if taken:
                raise ValueRefused("a field of the envelope itself", f"$.{min(taken)}")
            middle += b"," + stored(draft.extra)[1:-1]
        return b'%b"ts":%d,"type":%b%b,"data":' % (self._begin(seq), draft.ts, kind, middle)

    def _begin(self, seq: int) -> bytes:
        return b'%b"seq":%d,' % (self._start, seq)

    def _parent(self, seq: int, parent: int) -> int:
        return parent


class TapePrefix(Prefix):
    """Line prefix of a tape.

    It omits the fields that the header line and the line number define, and states the distance in
    lines to the enclosing event. A line therefore stays unchanged when lines around it are added or
    removed.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("", "")

    def _begin(self, seq: int) -> bytes:
        return b"{"

    def _parent(self, seq: int, parent: int) -> int:
        return parent - seq


def _encoded_type(name: str) -> bytes:
    try:
        return stored(name)
    except ValueRefused as error:
        raise ValueRefused(error.reason, "$.type") from None


SCHEDULE: Final = "schedule"
"""The source of these events."""

CHUNK: Final = "chunk"
"""``chunk:P:N`` names the delivery of piece N of the stream at position P of its lane."""

DROPPED: Final = "dropped"
"""Names what did not happen: the job of this lane was given up before it began."""

STOPPED: Final = "stopped"
"""Key of an event for a process that the program ended: the process of this lane or the one that
did its job.
"""

LONGEST_CHUNK_RUN: Final = 64
"""Pieces of a stream that one event stands for, at most: a reader makes something of each, and a
forged recording must not make it make very much."""

NO_VALUE: Final = digest_bytes(b"null")

_CHUNK_NAME = f"{CHUNK}:"
_LONGEST_NUMBER = 15


def chunk_delivery(position: int, first: int, count: int) -> Data:
    """The data that say: ``count`` pieces of a stream were handed over, one after the other."""
    data: Data = {"source": SCHEDULE, "key": f"{CHUNK}:{position}:{first}", "valueHash": NO_VALUE}
    if count > 1:
        data["count"] = count
    return data


def parse_chunk_delivery(key: Any, count: Any) -> tuple[int, int, int] | None:
    """Position, first and count of what :func:`chunk_delivery` made; None for any other delivery."""
    if not isinstance(key, str) or not key.startswith(_CHUNK_NAME):
        return None
    position, _, first = key[len(_CHUNK_NAME) :].partition(":")
    if not _is_number(position) or not _is_number(first):
        return None
    several = type(count) is int and 1 < count <= LONGEST_CHUNK_RUN
    return int(position), int(first), count if several else 1


def _is_number(text: str) -> bool:
    return len(text) <= _LONGEST_NUMBER and text.isdecimal() and text.isascii()


def delivery_names(key: str, count: Any) -> list[str]:
    """The name of each delivery that an event with ``key`` and ``count`` stands for."""
    run = parse_chunk_delivery(key, count) if count is not None else None
    if run is None:
        return [key]
    position, first, several = run
    return [f"{CHUNK}:{position}:{number}" for number in range(first, first + several)]
