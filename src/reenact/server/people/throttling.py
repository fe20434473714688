"""How long to wait after sign-ins that failed. Pure."""

from __future__ import annotations

from typing import Final

from reenact.server.problems import Problem
from reenact.server.storage.platform import Attempts

__all__ = ["ACCOUNT", "ADDRESS", "after_failure", "check_wait"]

ACCOUNT: Final = 5
"""Failures that cost nothing, for one account."""
ADDRESS: Final = 20
"""The same for one address, behind which there may be many people."""
_LONGEST: Final = 15 * 60
_FORGOTTEN: Final = 60 * 60


def check_wait(found: Attempts, free: int, now: int) -> None:
    """Raises :class:`Problem` while nothing is looked at. Nobody waits longer than they were told to:
    what is left to wait can only be more where the clock has been set back since."""
    left = found.until - now
    if 0 < left <= _seconds(found.failures - free) * 1000:
        seconds = -(-left // 1000)
        raise Problem(
            "rate_limited",
            "too many sign-ins failed",
            hint=f"try again in {seconds} s",
            retry_after=seconds,
        )


def after_failure(found: Attempts, free: int, now: int) -> Attempts:
    """One more. After the free ones each wait is twice as long as the one before, up to a quarter
    of an hour; an hour without any makes all forgotten."""
    before = 0 if now - found.until > _FORGOTTEN * 1000 else found.failures
    return Attempts(before + 1, now + _seconds(before + 1 - free) * 1000)


def _seconds(beyond: int) -> int:
    return 0 if beyond < 0 else min(_LONGEST, 2 ** min(beyond, 20))
