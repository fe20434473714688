"""What was run, and how it went as a whole: the heading of every report."""

from __future__ import annotations

import platform
from typing import Any

import msgspec

from reenact._version import __version__
from reenact.runs.regression.job import Job
from reenact.runs.regression.outcome import BAD, Outcome
from reenact.runs.regression.tally import Tally

__all__ = ["Account", "as_json"]

_VERSION = 1


def _system() -> str:
    return f"{platform.system()} {platform.machine()}"


class Account(msgspec.Struct, kw_only=True, rename="camel"):
    """``total`` recordings were to be re-enacted; ``seconds`` is how long it took."""

    paths: list[str]
    job: Job
    total: int
    engine: str = "local"
    jobs: int | None = None
    shard: str | None = None
    baseline: str | None = None
    started_at: int = 0
    """Milliseconds since the epoch."""
    seconds: float = 0.0
    resumed: int = 0
    """So many outcomes are from the journal."""
    ended: str = "complete"
    """``interrupted``, or ``stopped`` at the first that went wrong."""
    reenact: str = __version__
    python: str = msgspec.field(default_factory=platform.python_version)
    system: str = msgspec.field(default_factory=_system)


def as_json(account: Account, tally: Tally) -> dict[str, Any]:
    """Version 1 of the report."""
    return {
        "version": _VERSION,
        "run": msgspec.to_builtins(account),
        "counts": {name: tally.counts[name] for name in ("ok", *BAD, "known")},
        "notRun": account.total - len(tally),
        "groups": [
            {
                "id": group.id,
                "status": group.status,
                "cause": group.cause,
                "known": group.known,
                "recordings": [one.recording for one in group.outcomes],
                "first": _whole(group.outcomes[0]),
            }
            for group in tally.groups()
        ],
        "seconds": round(sum(one.seconds for one in tally), 3),
    }


def _whole(outcome: Outcome) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(outcome)
    return found
