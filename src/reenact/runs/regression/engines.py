"""Where the work is done."""

from __future__ import annotations

import os

from reenact.runs.afar.pulling import Means
from reenact.runs.regression.job import Engine, Job
from reenact.runs.regression.local import Local

__all__ = ["make_engine"]


def make_engine(
    name: str, job: Job, jobs: int | None, address: str | None, means: Means | None = None
) -> Engine:
    """The engine of this name; ``means`` are for recordings that are elsewhere. Raises :class:`UsageError` when it is not installed."""
    if name == "ray":
        from reenact.runs.regression.on_ray import OnRay

        return OnRay(job, jobs, address, means)
    return Local(job, jobs or os.cpu_count() or 1, means)
