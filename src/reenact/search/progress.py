"""What an update of the index has done."""

from __future__ import annotations

import msgspec

__all__ = ["Progress"]


class Progress(msgspec.Struct):
    """Numbers that grow meanwhile."""

    read: int = 0
    """Recordings and reports that were looked into."""
    events: int = 0
    removed: int = 0
