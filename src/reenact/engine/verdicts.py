"""What differs between the recorded run and this one, put into words and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from reenact.engine.call import Call, Entry
from reenact.engine.divergence import Divergence
from reenact.engine.requests import Ask, request_of
from reenact.engine.script import Script
from reenact.format.content import settled
from reenact.format.event import Data
from reenact.policy.matching import Comparer
from reenact.policy.rules import SessionMode

if TYPE_CHECKING:
    from reenact.engine.diagnosis import Diagnosis

__all__ = ["KEPT", "Verdicts", "identity", "recorded_identity"]

KEPT: Final = 1_000
"""Divergences that are kept whole; later ones are counted."""


def identity(call: Call) -> Data:
    """The part of a call that is compared, in the form in which it is found in an event."""
    if call.type != "nondeterministic":
        return call.request
    if call.key and not call.request:
        return {"source": call.source, "key": call.key}
    return {"source": call.source, "op": call.operation, "request": call.request}


def recorded_identity(entry: Entry) -> Data:
    """The same of a recorded call."""
    return request_of(entry.type, entry.opening.data)


class Verdicts:
    """The divergences of one session. Not thread-safe: the session's lock covers it."""

    mode: SessionMode
    script: Script | None

    def __init__(self, comparer: Comparer, diagnosis: Diagnosis) -> None:
        self._comparer = comparer
        self._diagnosis = diagnosis
        self.count_anew()

    def count_anew(self) -> None:
        """Nothing has happened yet. In a forked child: what its parent did is not its to report."""
        self.divergences: list[Divergence] = []
        self.more_divergences = 0

    def key(self, call: Call) -> str:
        """The key of ``call``: its own, or the digest of what is compared."""
        return call.key or self._comparer.key(identity(call))

    def ask(self, call: Call, key: str, lane: str) -> Ask:
        """``call`` in the words of a diagnosis."""
        return Ask(
            type=call.type, operation=call.operation, lane=lane, request=identity(call), key=key
        )

    def stalled(self, head: int | None, waiting: Ask | None, *, stack: str, why: str) -> Divergence:
        """The run waits for event ``head``, which the program does not ask for."""
        event = self.script.event(head) if self.script and head else None
        return self.note(self._diagnosis.stalled(event, waiting, stack=stack, why=why))

    def cancelled(self, entry: Entry, call: Call, key: str, lane: str) -> Divergence:
        """Answered in the recording, cancelled now."""
        return self.note(self._diagnosis.cancelled(entry.opening, self.ask(call, key, lane)))

    def differs(self, entry: Entry, call: Call, key: str, lane: str, result: Data) -> Divergence:
        """A call that was made again gave another result than the recorded one. Not noted."""
        closing = entry.closing or entry.opening
        if call.volatile:
            closing = msgspec.structs.replace(closing, _data=settled(closing.data, call.volatile))
        ask = Ask(
            type=closing.type,
            operation=call.operation,
            lane=lane,
            request=request_of(closing.type, settled(result, call.volatile)),
            key=key,
        )
        return self._diagnosis.payload_mismatch(closing, ask, ())

    def made_again(self, entry: Entry, why: str) -> Divergence:
        """In an update: ``entry`` was asked for and cannot stay as it is."""
        return self._diagnosis.missing(entry.opening, why=why)

    def goes_on(
        self, entry: Entry, call: Call, lane: str, then: Data, now: Data
    ) -> Divergence | None:
        """The program has said ``then`` in the course of a recorded call, and says ``now`` in this
        one: compared as if it had been part of the request."""
        was = msgspec.structs.replace(call, request={**call.request, **then})
        call = msgspec.structs.replace(call, request={**call.request, **now})
        key = self.key(call)
        if self.key(was) == key:
            return None
        event = msgspec.structs.replace(
            entry.opening, _data={**entry.opening.data, "request": was.request}
        )
        ask = self.ask(call, key, lane)
        return self.note(self._diagnosis.payload_mismatch(event, ask, ()))

    def note(self, divergence: Divergence) -> Divergence:
        """Remember it for the report."""
        if len(self.divergences) < KEPT:
            self.divergences.append(divergence)
        else:
            self.more_divergences += 1
        return divergence

    def note_served(self, divergence: Divergence, seq: int) -> Divergence:
        """``divergence``, which was noted last, with the recorded call that answers it."""
        told = msgspec.structs.replace(divergence, served=seq)
        if self.divergences and self.divergences[-1] is divergence:
            self.divergences[-1] = told
        return told

    def observe_mark(self, call: Call, lane: str) -> Divergence | None:
        """The program says that its run starts or ends; compare with what it said then."""
        if self.script is None:
            return None
        entry = self.script.mark(call.type, lane)
        key = self.key(call)
        if entry is not None and self._comparer.key(recorded_identity(entry)) == key:
            return None
        ask = self.ask(call, key, lane)
        if entry is None:
            divergence = self._diagnosis.unexpected(ask, (), draws=False)
        else:
            divergence = self._diagnosis.payload_mismatch(entry.opening, ask, ())
        return self.note(divergence)

    def observe_closing(self, entry: Entry, kind: str, data: Data) -> Divergence | None:
        """The program says what came back; compare with what came back then."""
        recorded = entry.closing
        if recorded is None or self.mode != "replay":
            return None
        asked = request_of(kind, data)
        key = self._comparer.key(asked)
        if self._comparer.key(request_of(recorded.type, recorded.data)) == key:
            return None
        ask = Ask(type=kind, operation=entry.operation, lane=entry.lane, request=asked, key=key)
        return self.note(self._diagnosis.payload_mismatch(recorded, ask, ()))
