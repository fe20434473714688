"""Digests of values that must not be guessed.

A record stays for ever, a value may have to go. So a record has only digests of values, and a plain
digest of an amount or a name can be guessed by trying. Each value gets 32 random bytes of its own,
the *salt*, which are kept with the value and erased with it: then the digest proves nothing more,
and nothing about the value can be had from it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Final

from reenact.errors import UsageError
from reenact.format.canonical import canonical

__all__ = ["SALT_SIZE", "opens", "salted"]

SALT_SIZE: Final = 32
_DOMAIN: Final = b"reenact audit value 1\n"


def salted(value: Any, salt: bytes) -> str:
    """``hmac-sha256:<64 hex>`` of the canonical JSON of ``value`` under ``salt``.

    Raises :class:`UsageError` for a salt of another size: a short one can be guessed along, and
    HMAC treats some keys of different sizes alike. Raises :class:`ValueRefused` for what is not JSON.
    """
    if len(salt) != SALT_SIZE:
        raise UsageError(
            f"a salt has {SALT_SIZE} bytes, this one {len(salt)}", hint="use random bytes"
        )
    mark = hmac.new(salt, _DOMAIN + canonical(value), hashlib.sha256)
    return f"hmac-sha256:{mark.hexdigest()}"


def opens(digest: str, value: Any, salt: bytes) -> bool:
    """Is ``digest`` the salted digest of this value?"""
    return hmac.compare_digest(digest, salted(value, salt))
