"""E-mail addresses, as the names of accounts."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from reenact.server.problems import Problem

__all__ = ["check_email", "plain_email"]

_LONGEST: Final = 254
_SHAPE: Final = re.compile(r"[^@\s\x00-\x1f\x7f]+@[^@\s\x00-\x1f\x7f]+")


def plain_email(text: str) -> str:
    """As it is kept and looked up: small letters, composed, no space around it."""
    return unicodedata.normalize("NFC", text.strip().lower())


def check_email(text: str) -> str:
    """The plain form of a new account's address. Raises :class:`Problem`."""
    found = plain_email(text)
    sound = len(found) <= _LONGEST and _SHAPE.fullmatch(found) and _is_text(found)
    if not sound:
        raise Problem("invalid", "this is not an e-mail address", field="email")
    return found


def _is_text(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
