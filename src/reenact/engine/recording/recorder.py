"""Recorder: turns calls, results, draws and deliveries into events of a sink.

The session's lock covers the numbering of positions. :class:`InFlightCall` is a call that has
been opened and is not completed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from reenact._system import Clock
from reenact.engine.call import DRAWS, PAIRS, SCHEDULE, Call, Entry
from reenact.engine.codecs import completing_type, has_path
from reenact.engine.lanes import Lane
from reenact.engine.recording.budget import RecordingBudget
from reenact.engine.session.context import current_attempt
from reenact.format.canonical import canonical, digest, digest_bytes
from reenact.format.draw_runs import Run, dump_aside, dump_reads, dump_run, values_of
from reenact.format.event import (
    LONGEST_CHUNK_RUN,
    NO_VALUE,
    Data,
    Draft,
    Event,
    chunk_delivery,
    parse_chunk_delivery,
)
from reenact.policy.redaction.redactor import Redactor, Screen

if TYPE_CHECKING:
    from reenact.store.sinks.base import Sink
    from reenact.store.sinks.copy import BranchSink, CopyOnWriteSink
    from reenact.store.stream_journal import Note

__all__ = ["InFlightCall", "Recorder"]


_ALWAYS: Final = ("lens", "provider", "model", "inputHash", "toolSchemaHash")
"""Fields of a model call that are written even where the request is left out."""


class InFlightCall(msgspec.Struct, eq=False):
    """A call in flight. ``parent`` is the seq of its opening event, if it has one.

    In an update, ``entry`` is the recorded call that matches it, and ``answer`` its recorded
    result. A call that completes with that result is kept unchanged.
    """

    call: Call
    key: str
    lane: Lane
    position: int
    parent: int | None = None
    inner: str | None = None
    ordinals: Data = {}
    """Of a model call: which one of its lane, and of which attempt."""
    entry: Entry | None = None
    answer: Data | None = None
    note: Note | None = None
    """Part of a stream that is on disk before the call completes."""
    past: bool = False
    """All events of the call are before the fork point, so they are in the log."""
    resumed: bool = False
    """The opening event is before the fork point, so it is in the log."""
    fresh: bool = False
    """The call is written even if the fork point is not reached yet."""
    spans: bool = False
    """A stream of which the program got some pieces before that point, and others after it."""


class Recorder:
    """Writes what a session does. The session's lock covers the numbering of positions.

    ``copy_sink`` is the sink where a recording is added to.
    """

    def __init__(
        self,
        sink: Sink,
        clock: Clock,
        redactor: Redactor,
        budget: RecordingBudget,
        *,
        copy_sink: CopyOnWriteSink | BranchSink | None = None,
        lock: Any = None,
    ) -> None:
        self.budget = budget
        self._sink = sink
        self._clock = clock
        self._redactor = redactor
        self._copy_sink = copy_sink
        self._lock = lock or threading.RLock()
        self._run: _Run | None = None
        from reenact.store.sinks.base import watch_forks  # there is one, if there is a sink

        watch_forks(self)

    def after_fork(self) -> None:
        """In a forked child: what was handed to its parent is none of its business."""
        self._run = None

    def open(self, opened: InFlightCall, *, brief: bool = False) -> InFlightCall:
        """Write the opening event of a call that has two; ``brief`` leaves out what was asked."""
        call = opened.call
        if call.type not in PAIRS or opened.resumed:
            return opened
        if opened.entry is not None:
            opened.parent = self._copy(opened, opened.entry.opening.seq) or None
            opened.lane.models += call.type == "llm_request"
            return opened
        extra = call.extra
        if brief:
            extra = {name: extra[name] for name in _ALWAYS if name in extra}
        data = {**extra, **call.request, "key": opened.key}
        if call.type == "tool_call":
            data["callId"] = call_id(opened)
            data["args"] = None if brief else data["args"]
        elif call.type == "llm_request":
            data |= self._count(opened)
        if opened.inner is not None:
            data["inner"] = opened.inner
        with self._lock:
            data = _with_position(opened, data)
            opened.parent = (
                self._append(call.type, data, opened.lane.name, None, call.operation) or None
            )
        return opened

    def _count(self, opened: InFlightCall) -> Data:
        """Number a model call, unless its caller does."""
        said = {**opened.call.extra, **opened.call.request}
        lane = opened.lane
        opened.ordinals = {
            "attempt": said.get("attempt", current_attempt()),
            "call": said.get("call", lane.models),
        }
        lane.models += 1
        return opened.ordinals

    def note(self, opened: InFlightCall) -> None:
        """A stream begins: from now on what has come of it survives a kill."""
        known = self.completing(opened, {"ok": False} if opened.call.type == "tool_call" else {})
        data = {name: item for name, item in known.items() if name != "valueHash"}
        data = _with_tool(opened, data)
        kind = completing_type(opened.call)
        draft = self._draft(kind, data, opened.lane.name, opened.parent)
        opened.note = self._sink.begin(draft, opened.position)

    def grow(self, opened: InFlightCall, data: Data) -> None:
        """Add ``data``, the part of the next delivered piece, to the event of a stream."""
        if opened.note is not None:
            opened.note.add(data, self._clock())

    def screen(self) -> Screen:
        """Return a screen that limits how far a growing text can be written."""
        return Screen(self._redactor)

    def _copy(self, opened: InFlightCall, seq: int) -> int:
        """Keep event ``seq``, at the place that the call has now."""
        assert self._copy_sink is not None
        lane = opened.lane
        with self._lock:
            self.tell_run()
            moved = None if opened.position == lane.logged else opened.position
            lane.logged += 1
            return self._copy_sink.copy(seq, {"position": moved})

    def completing(self, opened: InFlightCall, result: Data, *, brief: bool = False) -> Data:
        """Return the data of the event that completes the call, ready to be written.

        ``brief`` leaves out the request.
        """
        call = opened.call
        if call.type == "tool_call":
            return {"callId": call_id(opened), **result, **_volatile(call, result)}
        if call.type == "llm_request":
            said = call.says(result["response"]) if call.says and "response" in result else {}
            return {**self._known(opened), **result, **said}
        if call.type != "nondeterministic":
            return call.request
        data: Data = {"source": call.source, "key": opened.key}
        if call.operation:
            data["op"] = call.operation
        if not brief and (call.request or not call.key):
            data["request"] = call.request
            data |= call.extra
        value = result["response"] if "response" in result else result.get("value")
        # Secrets in it, which must not be hashed, are found when the event is written.
        return {**data, "valueHash": digest(value), **result}

    def _known(self, opened: InFlightCall) -> Data:
        """Return the fields of a model response that are known before it arrives."""
        said = {**opened.call.extra, **opened.call.request}
        known: Data = {name: said.get(name, "") for name in ("provider", "model")}
        if "lens" in said:
            known["lens"] = said["lens"]
        return {**known, "stopReason": None, "usage": None, **opened.ordinals}

    def value_hash(self, value: Any) -> str:
        """Of what is written: the hash of a short secret would give it away."""
        encoded = canonical(value)
        if self._redactor.suspects(encoded):
            encoded = canonical(self._redactor.redact(value).value)
        return digest_bytes(encoded)

    def complete(self, opened: InFlightCall, data: Data) -> int:
        """Write the event that completes the call."""
        kind = completing_type(opened.call)
        pair = opened.call.type in PAIRS
        self.tell_run()
        if opened.note is not None:
            opened.note.end()
        if opened.entry is not None and opened.entry.closing is not None:
            assert self._copy_sink is not None
            seq = opened.entry.closing.seq
            if data is opened.answer:
                self.budget.keep()
                return self._copy_sink.copy(seq) if pair else self._copy(opened, seq)
            self._copy_sink.leave_out(seq)
        parent = opened.parent if pair else None
        # The caller holds the lock, so the number of events before this one is its position.
        data = _with_tool(opened, data) if pair else _with_position(opened, data)
        return self._sink.append(
            self._next_event(kind, data, opened.lane.name, parent, opened.call.operation)
        )

    def draws(self, lane: Lane, run: Run, *, aside: bool = False) -> None:
        """Write a run of draws, the last positions of ``lane``.

        With ``aside`` the draws have no positions.
        """
        data = dump_aside(run) if aside else dump_run(run)
        if "type" in data:  # a state mutation
            data["aside"] = True
            with self._lock:
                self._append("state_mutation", data, lane.name, None, str(data["type"]), noted=True)
            return
        data["valueHash"] = self.value_hash(values_of(data))
        if data["source"] not in DRAWS:
            data["instant"] = True  # what else has this source is waited for
        with self._lock:
            if aside:
                data["aside"] = True
                self._append(
                    "nondeterministic", data, lane.name, None, str(data["key"]), noted=True
                )
                return
            if lane.calls != lane.logged:
                data["position"] = lane.calls
            lane.calls += len(run.turns)
            lane.logged += len(run.turns)
            self._append("nondeterministic", data, lane.name, None, str(data["key"]))

    def reads(self, lane: Lane, drawn: Sequence[tuple[str, Any]]) -> None:
        """Write the environment variables that ``lane`` has read, each of them once."""
        data = dump_reads(drawn)
        data["aside"] = True
        with self._lock:
            self._append("state_mutation", data, lane.name, None, "env_read", noted=True)

    def keep_draws(self, lane: Lane, seq: int, count: int) -> None:
        """Keep the run of draws of event ``seq`` as the last action of ``lane``."""
        assert self._copy_sink is not None
        with self._lock:
            self.tell_run()
            moved = None if lane.calls == lane.logged else lane.calls
            lane.calls += count
            lane.logged += count
            self._copy_sink.copy(seq, {"position": moved})

    def keep_aside(self, seq: int) -> None:
        """Keep recorded draws that have no positions in their lane."""
        assert self._copy_sink is not None
        with self._lock:
            self.tell_run()
            self._copy_sink.copy(seq)

    def delivery(self, lane: str, name: str) -> None:
        """Write that something was handed to the program just now; not when the recording is
        full.

        Pieces of one stream that come one after the other are one event, written with the next
        event; until then they are in the note of the stream.
        """
        if self.budget.full is not None:
            return
        piece = parse_chunk_delivery(name, None)
        run = self._run
        if piece is None:
            data = {"source": SCHEDULE, "key": name, "valueHash": NO_VALUE}
            self._append("nondeterministic", data, lane, None, SCHEDULE)
        elif run is not None and run.goes_on(lane, *piece[:2]):
            run.count += 1
        else:
            self.tell_run()
            self._run = _Run(lane, *piece)

    def tell_run(self) -> None:
        """Write what has been handed over and is not in the log yet."""
        run, self._run = self._run, None
        if run is not None:
            data = chunk_delivery(run.position, run.first, run.count)
            self._append("nondeterministic", data, run.lane, None, SCHEDULE)

    def event(self, kind: str, data: Data, lane: str, *, recorded: Event | None = None) -> int:
        """Write an event that the program made itself; or keep the one that was recorded."""
        self.tell_run()
        if recorded is not None and self._copy_sink is not None:
            return self._copy_sink.copy(recorded.seq)
        return self._append(kind, data, lane, None, "")

    def _append(
        self,
        kind: str,
        data: Data,
        lane: str,
        parent: int | None,
        op: str,
        *,
        noted: bool = False,
    ) -> int:
        """Append an event. ``noted``: the event alone does not change an updated recording."""
        draft = self._next_event(kind, data, lane, parent, op)
        if self._copy_sink is not None and (noted or op is SCHEDULE):
            return self._copy_sink.note(draft)
        return self._sink.append(draft)

    def _next_event(self, kind: str, data: Data, lane: str, parent: int | None, op: str) -> Draft:
        """Return an event to append, after everything that was handed over before it."""
        self.tell_run()
        self.budget.took(data)
        return self._draft(kind, data, lane, parent, op)

    def _draft(
        self, kind: str, data: Data, lane: str, parent: int | None = None, op: str = ""
    ) -> Draft:
        return Draft(type=kind, data=data, ts=self._clock(), lane=lane, parent=parent, op=op)


def _with_position(opened: InFlightCall, data: Data) -> Data:
    """Count the event of ``opened`` in its lane; return ``data`` with its position if that is not
    the number of events before it."""
    lane = opened.lane
    if opened.position != lane.logged:
        data = {**data, "position": opened.position}
    lane.logged += 1
    return data


def _with_tool(opened: InFlightCall, data: Data) -> Data:
    """Return ``data`` of a completing event, for a tool with the name of the tool."""
    if opened.call.type != "tool_call" or "name" in data:
        return data
    return {"name": opened.call.operation, **data}


def _volatile(call: Call, result: Data) -> Data:
    """Return the volatile paths of ``call`` that are present in ``result``."""
    found = [text for text in call.volatile if has_path(result, text)]
    return {"volatile": found} if found else {}


class _Run(msgspec.Struct):
    """Pieces of one stream that were handed over one after the other."""

    lane: str
    position: int
    first: int
    count: int

    def goes_on(self, lane: str, position: int, number: int) -> bool:
        """Return whether this is the next piece of the same stream."""
        same = (lane, position, number) == (self.lane, self.position, self.first + self.count)
        return same and self.count < LONGEST_CHUNK_RUN


def call_id(opened: InFlightCall) -> str:
    """The id of a tool call: the caller's, or its place, which is the same in every run."""
    return opened.call.call_id or f"{opened.lane.name}#{opened.position}"
