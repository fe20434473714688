"""Resources of a session: opened recordings, redactor, clock and budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from reenact._system import Clock
from reenact.engine.lanes import Lane
from reenact.engine.recording.budget import RecordingBudget
from reenact.policy.model import DEFAULT

if TYPE_CHECKING:
    from reenact.engine.fork.plan import ForkPlan
    from reenact.policy.redaction.redactor import Redactor
    from reenact.store.seal import Seal
    from reenact.store.sinks.base import CopySink
    from reenact.store.sinks.copy import BranchSink, Copier, CopyOnWriteSink
    from reenact.store.source import SeekableSource

__all__ = ["SessionResources"]


class SessionResources(msgspec.Struct):
    """Opened files and other resources that a session uses.

    ``copy_sink`` copies events of ``source`` if a recording is continued, and ``copier`` if a replay
    is recorded.
    """

    clock: Clock
    redactor: Redactor
    source: SeekableSource | None = None
    sink: CopySink | CopyOnWriteSink | BranchSink | None = None
    copy_sink: CopyOnWriteSink | None = None
    copier: Copier | None = None
    seal: Seal | None = None
    reader: SeekableSource | None = None
    """The second reader of ``source``, from which ``copier`` copies."""
    budget: RecordingBudget = msgspec.field(default_factory=lambda: RecordingBudget(DEFAULT))
    root: Lane | None = None
    """Root lane of the program, where a recording is continued."""
    run_id: str = ""
    """Id of the run that is written."""
    fork_plan: ForkPlan | None = None
    """Plan of a forked run."""
    forks_to: BranchSink | None = None
    """Sink of a forked run, which copies events of ``source``."""
    share: Callable[[], None] | None = None
    """Called before another process joins, to move the recording to a place that it can read."""
    is_brief: bool = False
    """The session is short and perhaps makes no call, so its parts are created on first use."""
    free: set[str] = msgspec.field(default_factory=set)
    """Sources known so far whose draws the policy lets pass."""

    def give_up(self) -> None:
        """Discard the recording that was to be written, because the session does not open."""
        if self.sink is not None:
            self.sink.discard()
        self.close()

    def close(self) -> None:
        """Close the recordings that are read."""
        for source in (self.source, self.reader):
            if source is not None:
                source.close()
