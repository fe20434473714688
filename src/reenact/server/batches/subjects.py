"""What hints about batches are about."""

from __future__ import annotations

from typing import Final

__all__ = ["DRIVERS", "batch_subject"]

DRIVERS: Final = "batches"
"""There may be a batch to drive on."""


def batch_subject(tenant: str, batch_id: str) -> str:
    """This batch may have got on."""
    return f"batch:{tenant}:{batch_id}"
