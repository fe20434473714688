"""How long to wait before the next try: doubled each time, less a random part of up to a half."""

from __future__ import annotations

from collections.abc import Callable

from reenact._system import entropy
from reenact.exchange.link.limits import Limits

__all__ = ["BackOff", "Draw", "draw"]

Draw = Callable[[], float]
"""From 0 to below 1."""

_MOST_ASKED = 3_600.0
"""Seconds: whoever says ``Retry-After`` cannot silence an agent for longer."""


def draw() -> float:
    """A number by chance, none of the program's."""
    return int.from_bytes(entropy(4), "big") / 2**32


class BackOff:
    """Of one conversation. Not shared by threads."""

    def __init__(self, limits: Limits, chance: Draw = draw) -> None:
        self._limits = limits
        self._draw = chance
        self._failures = 0

    def succeeded(self) -> None:
        """The next failure is the first again."""
        self._failures = 0

    def failed(self, retry_after: float | None = None) -> float:
        """Seconds to wait. What the server asks for is waited at least."""
        limits = self._limits
        usual = min(limits.retry_most, limits.retry_first * 2.0 ** min(self._failures, 30))
        self._failures += 1
        if retry_after is not None:
            return min(max(retry_after, 0.0), _MOST_ASKED) + usual * self._draw() / 2
        return usual * (1 - self._draw() / 2)

    def refused(self) -> float:
        """Seconds to wait where asking again is in vain until a person does something."""
        return self._limits.refused_seconds * (1 - self._draw() / 2)
