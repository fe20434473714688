"""What to do about a divergence, in the words of the place where somebody reads of it."""

from __future__ import annotations

import msgspec

__all__ = ["SESSION", "Ways"]


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence each: a call is another one than it was, is one more, or is missing."""

    again: str
    more: str
    fewer: str


SESSION = Ways(
    again="If the change is intended, mode='update' makes again what differs, and nothing else.",
    more="If the new call is intended, add it with mode='record_missing', "
    "or let mode='update' make again whatever differs.",
    fewer="If the program is right, mode='update' drops what it does not ask for, and keeps the rest.",
)
