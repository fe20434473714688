"""What is done with each recording, and who can do it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from reenact.runs.afar.place import Place
from reenact.runs.regression.outcome import Outcome

__all__ = ["Engine", "Job", "Performer", "performer"]


class Job(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A function to call, else a command to run, else the command that each was recorded with."""

    target: str | None = None
    command: tuple[str, ...] = ()
    policy: str | None = None
    allow: tuple[str, ...] = ()
    boundaries: tuple[str, ...] = ()
    timeout: float | None = None
    """Seconds."""


class Performer(Protocol):
    """Does it on the machine where it is, from any number of threads."""

    def __call__(self, recording: Path, given: bytes | None = None) -> Outcome:
        """Re-enact one. ``given`` is what its function is given, as JSON, where the recording does
        not say it. Raises :class:`UsageError` when the job makes no sense."""

    def stop(self) -> None:
        """End what is under way: whoever waits for it gets some outcome. Nothing begins after it."""

    def close(self) -> None:
        """Let go of everything. Nobody waits for anything any more."""


class Engine(Protocol):
    """Does it for many, several at a time."""

    def perform(self, recordings: Sequence[Place]) -> Generator[Outcome, None, None]:
        """Outcomes as they come. Whoever closes this ends it: what is under way is let go."""


def performer(job: Job) -> Performer:
    """Somebody who does it here."""
    if job.target is not None:
        from reenact.runs.regression.targets import Targets

        return Targets(job.target, job.policy, job.timeout)
    from reenact.runs.regression.commands import Commands

    flags = [] if job.policy is None else ["--policy", job.policy]
    for flag, said in (("--allow", job.allow), ("--boundary", job.boundaries)):
        flags += [word for one in said for word in (flag, one)]
    return Commands(job.command, flags, job.timeout)
