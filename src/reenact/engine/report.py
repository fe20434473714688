"""What a session has to say at its end, in a form for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from reenact.engine.changes import NOTHING, Outcome
from reenact.engine.divergence import Divergence

if TYPE_CHECKING:
    from reenact.engine.machine import Machine

__all__ = ["Report"]

VERSION = 1


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Version 1. ``status`` is ``diverged`` when anything differed or was left over."""

    mode: str
    status: Literal["ok", "diverged"]
    served: int
    live: int
    passed: dict[str, int]
    unused: int
    divergences: list[Divergence]
    more_divergences: int = 0
    outcome: Outcome = NOTHING
    """Of an update."""

    @property
    def kept(self) -> int:
        """Of an update: calls that stay as they were."""
        return self.outcome.kept

    @property
    def changed(self) -> list[Divergence]:
        """Of an update: for each call that was made in the place of a recorded one, what differs."""
        return self.outcome.changed

    @property
    def added(self) -> list[Divergence]:
        """Of an update: calls that the recording did not have."""
        return self.outcome.added

    @property
    def dropped(self) -> list[Divergence]:
        """Of an update: recorded calls that were not made."""
        return self.outcome.dropped

    @classmethod
    def of(
        cls,
        machine: Machine,
        left_over: list[Divergence],
        unused: int,
        mode: str,
        outcome: Outcome = NOTHING,
    ) -> Self:
        """The report of a session that has come so far."""
        found = [*machine.divergences, *left_over]
        return cls(
            mode=mode,
            status="diverged" if found else "ok",
            served=machine.served,
            live=machine.live,
            passed=dict(sorted(machine.passed.items())),
            unused=unused,
            divergences=found,
            more_divergences=machine.more_divergences,
            outcome=outcome,
        )

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
        update = self.outcome.to_json() if self.mode == "update" else {}
        return {
            "version": VERSION,
            "mode": self.mode,
            "status": self.status,
            "counts": {
                "served": self.served,
                "live": self.live,
                "passed": self.passed,
                "divergences": len(self.divergences) + self.more_divergences,
                "unused": self.unused,
            },
            "divergences": [one.to_json() for one in self.divergences],
            **update,
        }
