"""Sessions over recordings in memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from reenact import Policy, Session
from reenact.engine.recording.budget import RecordingBudget
from reenact.engine.session.resources import SessionResources
from reenact.engine.session.settings import Settings
from reenact.policy.model import DEFAULT, Mode, Pinned
from reenact.policy.redaction.redactor import Redactor
from reenact.store.sinks.base import Options
from reenact.store.sinks.memory import MemorySink, MemorySource, memory_seed
from tests.clocks import start_clock

__all__ = ["Stage"]


class Stage:
    """Records into memory and replays from there. ``sink`` is what was recorded last."""

    def __init__(self, policy: Policy = DEFAULT, **sink: Any) -> None:
        self.policy = policy
        self.warnings: list[str] = []
        self.sink = MemorySink()
        self._options = sink

    def recording(self) -> Session:
        redactor = Redactor("default")
        options = Options(redactor=redactor, warn=self.warnings.append)
        self.sink = MemorySink(options=options, **self._options)
        self.sink.start(memory_seed("default"))
        room = RecordingBudget(self.policy)
        parts = SessionResources(start_clock(), redactor, sink=self.sink, budget=room)
        return Session(self._settings("record"), parts)

    def replaying(self, source: MemorySource | None = None, *, strict: bool = True) -> Session:
        if source is None:
            source = self.sink.source()
        parts = SessionResources(start_clock(), Redactor("default"), source)
        return Session(self._settings("replay", strict=strict), parts)

    def record(self, body: Callable[[Session], Any]) -> Any:
        with self.recording() as session:
            return body(session)

    def replay(self, body: Callable[[Session], Any], *, strict: bool = True) -> Any:
        with self.replaying(strict=strict) as session:
            return body(session)

    def both(self, body: Callable[[Session], Any]) -> Any:
        """What ``body`` gives while it is recorded, which is what a replay gives."""
        made = self.record(body)
        assert self.replay(body) == made
        return made

    def data(self) -> list[dict[str, Any]]:
        """Of the recorded events, without deliveries."""
        found = [event.data for event in self.sink.events]
        return [data for data in found if data.get("source") != "schedule"]

    def _settings(self, mode: Mode, *, strict: bool = True) -> Settings:
        return Settings(
            mode=mode,
            pinned=Pinned.of(self.policy),
            strict=strict,
            unused="error" if strict else "warn",
            path=Path("memory"),
            tape=False,
            warn=self.warnings.append,
        )
