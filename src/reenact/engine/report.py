"""What a session has to say at its end, in a form for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

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

    @classmethod
    def of(cls, machine: Machine, left_over: list[Divergence], unused: int, mode: str) -> Self:
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
        )

    def to_json(self) -> dict[str, Any]:
        """The stable form."""
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
        }
