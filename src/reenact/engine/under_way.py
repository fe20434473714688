"""The calls of a session that have begun and have not been completed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from reenact.engine.call import Entry
from reenact.engine.complaints import Complaints
from reenact.engine.lanes import Lane
from reenact.engine.order import Token
from reenact.engine.recorder import Opened
from reenact.format.event import Data

__all__ = ["UnderWay"]


class UnderWay(Complaints):
    """The third layer of a session: calls begin, are answered or written down, and end."""

    def claim(self, opened: Opened, entry: Entry, *, stub: bool = True) -> tuple[Any, Data | None]:
        """The token of a recorded answer in the order of deliveries, and what was answered."""
        script = self.machine.script
        assert script is not None
        assert self._parts is not None
        assert self._parts.source is not None
        with self.lock:
            closing = script.complete(entry)
            if opened.inner is not None:
                opened.inner = entry.inner or opened.inner
                if stub:
                    script.stub(opened.inner)
            if closing is None or entry.unanswered:
                if not self.paces:
                    self.check_open()
                    raise self.diverged(self._never_answered(opened, entry))
                return None, None
            if opened.call.instant:
                script.order.drop(closing.seq)
            data = closing.data
            absent: tuple[str, ...] = ()
            if "redacted" in data:
                restored = self._parts.source.restored(closing, self._parts.seal)
                data, absent = restored.data, restored.absent
        if absent and entry.kind != "rng":  # who draws chance makes up something, and says so
            self.warn_once(
                "a recorded answer has values that were redacted and cannot be opened here: the "
                "placeholder is served instead (a capture directory keeps them, sealed with a key)"
            )
        if entry.kind == "clock" and isinstance(data.get("value"), (int, float)):
            self.last_clock = data["value"]
        return closing.seq, data

    def is_now(self, token: Token | None) -> bool:
        """Is it ``token``'s turn, and has it been handed over to this thread?"""
        with self.lock:
            return self.conductor.try_now(self.runner(), token)

    def begin(
        self, opened: Opened, ends: Callable[[], None] | None = None, *, brief: bool = False
    ) -> None:
        """A call starts. ``ends`` says what becomes of it when the session ends first."""
        with self.lock:
            if self._is_written(opened):
                self.recorder.open(opened, brief=brief)
            self._under_way[id(opened)] = opened, ends

    def _is_written(self, opened: Opened) -> bool:
        return (self.writes or opened.fresh) and not opened.past

    def keep(self, opened: Opened, data: Data) -> bool:
        """Is this call to stay in the recording as it was? Then it has begun."""
        if opened.entry is None:
            return False
        opened.answer = data
        self.begin(opened)
        return True

    def kept_or_new(self, opened: Opened, fields: Data) -> Data:
        """The completing event of a kept call that was made again."""
        assert self._keeper is not None
        with self.lock:
            return self._keeper.answer_or_new(opened, fields, self.recorder)

    def is_open(self, opened: Opened) -> bool:
        """Has ``opened`` begun, and not been completed?"""
        return id(opened) in self._under_way

    def complete(self, opened: Opened, data: Data) -> None:
        """Write the completing event of ``opened``, once."""
        with self.lock:
            found = self._under_way.pop(id(opened), None)
            if found is not None and self._is_written(opened):
                if self._keeper is not None and opened.entry is not None:
                    self._keeper.keep_inside(opened.entry)
                self.recorder.complete(opened, data)

    def unanswered(self, opened: Opened, why: str, *, turns: int = 0) -> Data:
        """The completing event of a call that was never answered; ``turns``: of the loop, until
        its live half had unwound."""
        fields: Data = {why: True}
        if turns:
            fields["timing"] = {"turns": turns}
        if opened.call.type == "tool_call":
            fields["ok"] = False
        elif opened.call.type == "llm_request":
            fields |= {"stopReason": None, "usage": None}
        return self.recorder.completing(opened, fields)

    def break_off(self) -> None:
        """The process ends here and now: what is under way is written as far as it has come."""
        with self.lock:
            self._flush()
            self.draws.end_all()
            self._end_what_is_under_way()

    def _end_what_is_under_way(self) -> None:
        for opened, ends in list(self._under_way.values()):
            if ends is not None:
                ends()
            else:
                self.complete(opened, self.unanswered(opened, "unfinished"))

    def defer(self, act: Callable[[], None]) -> None:
        """Do ``act`` at the next call, or at the end: for what the garbage collector finds out,
        which may be in the middle of anything."""
        self._deferred.append(act)

    def _flush(self) -> None:
        while self._deferred:
            self._deferred.popleft()()

    def record_delivery(self, lane: str, name: str) -> None:
        """Write that a timer fired, a chunk was handed over, and the like, while it is open."""
        with self.lock:
            if self._state == "open":
                self.recorder.delivery(lane, name)

    @contextmanager
    def in_lane(self, opened: Opened) -> Iterator[None]:
        """What runs here is inside the tool call ``opened``."""
        assert opened.inner is not None
        with self.lanes.inside(Lane(opened.inner)):
            yield
