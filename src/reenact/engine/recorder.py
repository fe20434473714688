"""From calls to the events of a sink."""

from __future__ import annotations

import threading
from typing import Any

import msgspec

from reenact._system import Clock
from reenact.engine.answers import completing_type
from reenact.engine.call import PAIRS, SCHEDULE, Call
from reenact.engine.lanes import Lane
from reenact.errors import BudgetExceeded
from reenact.format.canonical import canonical, digest_bytes, exact
from reenact.format.event import Data, Draft
from reenact.policy.access import over_bytes, over_entries, over_response
from reenact.policy.redaction import Redactor
from reenact.policy.rules import Policy
from reenact.store.sink import Sink

__all__ = ["Opened", "Recorder"]

_NO_VALUE = digest_bytes(b"null")


class Opened(msgspec.Struct, eq=False):
    """A call that is under way. ``parent`` is the seq of its opening event, if it has one."""

    call: Call
    key: str
    lane: Lane
    position: int
    parent: int | None = None
    inner: str | None = None


class Recorder:
    """Writes what a session does. The session's lock covers the numbering of positions."""

    def __init__(
        self, sink: Sink, clock: Clock, policy: Policy, redactor: Redactor, lock: Any = None
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._policy = policy
        self._redactor = redactor
        self._lock = lock or threading.RLock()
        self._entries = 0
        self._bytes = 0
        self._counts = policy.budgets.cassette_bytes is not None

    def open(self, opened: Opened) -> Opened:
        """Write the opening event of a call that has two."""
        call = opened.call
        if call.type in PAIRS:
            data = {**call.extra, **call.request, "key": opened.key}
            if call.type == "tool_call":
                data["callId"] = call_id(opened)
            if opened.inner is not None:
                data["inner"] = opened.inner
            opened.parent = self._append_position(opened, call.type, data) or None
        return opened

    def completing(self, opened: Opened, result: Data) -> Data:
        """The data of the event that completes the call, ready to be written."""
        call = opened.call
        if call.type == "tool_call":
            return {"callId": call_id(opened), **result}
        if call.type == "llm_request":
            known = {name: call.request.get(name, "") for name in ("provider", "model")}
            return {**known, **result}
        if call.type != "nondeterministic":
            return call.request
        data: Data = {"source": call.source, "key": opened.key}
        if call.operation:
            data["op"] = call.operation
        if call.request or not call.key:
            data["request"] = call.request
        value = result["response"] if "response" in result else result.get("value")
        return {**data, **result, "valueHash": self._value_hash(value)}

    def _value_hash(self, value: Any) -> str:
        """Of what is written: the hash of a short secret would give it away."""
        if value is None:
            return _NO_VALUE
        encoded = canonical(value)
        if self._redactor.suspects(encoded):
            encoded = canonical(self._redactor.redact(value).value)
        return digest_bytes(encoded)

    def complete(self, opened: Opened, data: Data) -> int:
        """Write the event that completes the call."""
        kind = completing_type(opened.call)
        if opened.call.type in PAIRS:
            return self._append(kind, data, opened.lane.name, opened.parent, opened.call.operation)
        return self._append_position(opened, kind, data)

    def _append_position(self, opened: Opened, kind: str, data: Data) -> int:
        lane = opened.lane
        with self._lock:
            if opened.position != lane.logged:
                data = {**data, "position": opened.position}
            lane.logged += 1
            return self._append(kind, data, lane.name, None, opened.call.operation)

    def delivery(self, lane: str, name: str) -> int:
        """Write that something was handed to the program just now."""
        data = {"source": SCHEDULE, "key": name, "valueHash": _NO_VALUE}
        return self._append("nondeterministic", data, lane, None, SCHEDULE)

    def event(self, kind: str, data: Data, lane: str, parent: int | None = None) -> int:
        """Write an event that the program made itself."""
        return self._append(kind, data, lane, parent, "")

    def _append(self, kind: str, data: Data, lane: str, parent: int | None, op: str) -> int:
        draft = Draft(type=kind, data=data, ts=self._clock(), lane=lane, parent=parent, op=op)
        return self._sink.append(draft)

    def over_budget(self, data: Data) -> BudgetExceeded | None:
        """May a completing event with ``data`` be written? Counts it in if so."""
        budgets = self._policy.budgets
        if budgets.entries is None and budgets.response_bytes is None and not self._counts:
            return None
        size = len(exact(data))
        with self._lock:
            refusal = (
                over_entries(self._policy, self._entries + 1)
                or over_response(self._policy, size)
                or over_bytes(self._policy, self._bytes + size)
            )
            if refusal is None:
                self._entries += 1
                self._bytes += size
        return refusal


def call_id(opened: Opened) -> str:
    """The id of a tool call: the caller's, or its place, which is the same in every run."""
    return opened.call.call_id or f"{opened.lane.name}#{opened.position}"
