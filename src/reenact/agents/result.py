"""Result of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from reenact.agents.event_bus import Observed
from reenact.agents.messages import Message, Usage
from reenact.engine.divergence.model import Divergence

__all__ = ["AgentError", "AgentFailed", "AgentResult", "Attempt", "ErrorKind", "Status"]

Status = Literal["ok", "error", "aborted"]
ErrorKind = Literal[
    "context_overflow",
    "compaction_failure",
    "retry_limit",
    "max_turns",
    "model_error",
    "divergence",
]


class AgentError(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run failed. ``exception`` is what was raised, if anything was."""

    kind: ErrorKind
    message: str
    error_class: str = ""
    exception: BaseException | None = None


class AgentFailed(Exception):
    """A run has ended without an answer, and nothing was raised."""

    def __init__(self, error: AgentError) -> None:
        super().__init__(f"{error.kind}: {error.message}")
        self.error = error


class Attempt(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One attempt: with which model, and what ended it; empty for the one that the run ended in."""

    number: int
    model: str
    ended_by: str = ""
    error: str = ""


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an agent run.

    ``messages`` is the complete conversation, for use in a further run. ``usage`` is the sum over
    all calls, and ``last_usage`` is the usage of the last call.

    ``recording`` is the written recording, or the replayed one in a replay that is not recorded.
    ``content_hash`` is its hash, which is equal for identical runs. ``recording_status`` is the
    status of its manifest: ``error`` if it could not be written completely.
    """

    run_id: str
    status: Status
    output: str
    messages: tuple[Message, ...]
    usage: Usage
    last_usage: Usage | None
    stop_reason: str | None
    error: AgentError | None
    attempts: tuple[Attempt, ...]
    divergences: tuple[Divergence, ...] = ()
    warnings: tuple[str, ...] = ()
    observed: Observed = Observed()
    recording: Path | None = None
    recording_status: Literal["ok", "error", "recovered"] | None = None
    content_hash: str | None = None
    duration_ms: int = 0

    @property
    def aborted(self) -> bool:
        """True if the run was stopped from outside."""
        return self.status == "aborted"

    def check(self) -> AgentResult:
        """Return the result if the run has not failed. Raises the error otherwise."""
        if self.error is None:
            return self
        raise self.error.exception or AgentFailed(self.error)

    def to_json(self) -> dict[str, Any]:
        """Return the metadata, without the conversation."""
        error = self.error
        return {
            "runId": self.run_id,
            "status": self.status,
            "output": self.output,
            "aborted": self.aborted,
            "stopReason": self.stop_reason,
            "usage": self.usage.to_json(),
            "lastCallUsage": None if self.last_usage is None else self.last_usage.to_json(),
            "error": None if error is None else {"kind": error.kind, "message": error.message},
            "attempts": msgspec.to_builtins(self.attempts),
            "divergences": [one.to_json() for one in self.divergences],
            "warnings": list(self.warnings),
            "observers": msgspec.to_builtins(self.observed),
            "recording": None if self.recording is None else str(self.recording),
            "recordingStatus": self.recording_status,
            "contentHash": self.content_hash,
            "durationMs": self.duration_ms,
        }
