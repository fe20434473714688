"""Secrets that are shown once: keys, cookies, links. Only their hashes are kept.

A secret is 32 random bytes, and so needs no slow hash. A key begins with ``rnk_`` and says its kind
and its id, so that a leaked one can be recognised and revoked.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, Literal

import msgspec

__all__ = [
    "SECRET_SIZE",
    "KeyKind",
    "KeyText",
    "csrf_of",
    "fits",
    "hash_secret",
    "key_text",
    "read_key",
    "session_name",
]

KeyKind = Literal["agent", "user"]
SECRET_SIZE: Final = 32
_PREFIX: Final = "rnk"
_ID: Final = "key_"
_HEX: Final = frozenset("0123456789abcdef")
_LONGEST: Final = 200


class KeyText(msgspec.Struct, frozen=True):
    """A key as it is sent, taken apart. ``id`` is that of its row."""

    kind: str
    id: str
    secret: str

    def __repr__(self) -> str:
        """Without the secret."""
        return f"KeyText({self.kind}, {self.id})"


def key_text(kind: KeyKind, key_id: str, secret: str) -> str:
    """``rnk_<kind>_<id>_<secret>``."""
    return f"{_PREFIX}_{kind}_{key_id.removeprefix(_ID)}_{secret}"


def read_key(text: str) -> KeyText | None:
    """The parts of a key; None for what cannot be one."""
    parts = text.split("_")
    if len(text) > _LONGEST or not text.isascii() or len(parts) != 4:
        return None
    prefix, kind, key_id, secret = parts
    if prefix != _PREFIX or len(secret) != 2 * SECRET_SIZE or not _HEX.issuperset(secret):
        return None
    return KeyText(kind, f"{_ID}{key_id}", secret)


def hash_secret(secret: str) -> str:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def fits(secret: str, kept: str) -> bool:
    """Is it the one? Takes as long for a wrong one."""
    return bool(kept) and hmac.compare_digest(hash_secret(secret), kept)


def csrf_of(session: str) -> str:
    """The token that goes with a session. It follows from the cookie's secret, and so is nowhere
    kept."""
    return hmac.new(session.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hexdigest()


def session_name(kept: str) -> str:
    """What a session is called in records: a part of its hash."""
    return f"ses_{kept[:16]}"
