"""Secrets that are shown once (keys, cookies, links) and passwords.

Only hashes are stored. A secret has 32 random bytes, so it needs no slow hash; passwords are hashed with
scrypt. A key begins with ``rnk_`` and contains its kind and id, so a leaked key can be recognised and
revoked.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from reenact._system import entropy
from reenact.server.problems import Problem

__all__ = [
    "LEAST",
    "SECRET_SIZE",
    "KeyKind",
    "KeyText",
    "Passwords",
    "check_new",
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
    """Parsed text of a key. ``id`` is the id of its row."""

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
    """Return the stored hash of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def fits(secret: str, kept: str) -> bool:
    """Is it the one? Takes as long for a wrong one."""
    return bool(kept) and hmac.compare_digest(hash_secret(secret), kept)


def csrf_of(session: str) -> str:
    """The token that goes with a session. It follows from the cookie's secret, and so is nowhere
    kept."""
    return hmac.new(session.encode("utf-8", "surrogatepass"), b"csrf", hashlib.sha256).hexdigest()


def session_name(kept: str) -> str:
    """Return the name of a session in records, a part of its hash."""
    return f"ses_{kept[:16]}"


LEAST: Final = 10
"""Characters that a new password has at least."""
_MOST: Final = 1000
_SALT: Final = 16
_SIZE: Final = 32
_R, _P = 8, 3
_AT_ONCE: Final = 2
"""Hashes that are worked out at the same time: each takes a core, and 32 MiB."""


class Passwords:
    """``cost`` is the N of scrypt. A hash is ``scrypt$N$r$p$salt$hash``, so that the cost can grow
    and old hashes still be checked."""

    def __init__(
        self, cost: int = 1 << 15, secret: Callable[[int], bytes] = entropy, at_once: int = _AT_ONCE
    ) -> None:
        self._cost = cost
        self._secret = secret
        self._gate = asyncio.Semaphore(at_once)
        self._nobody = _text(cost, bytes(_SALT), bytes(_SIZE))

    async def hash(self, password: str) -> str:
        """Return the stored hash of ``password``."""
        salt = self._secret(_SALT)
        return _text(self._cost, salt, await self._work(password, self._cost, _R, _P, salt))

    async def check(self, password: str, kept: str) -> bool:
        """Is it the one? With nothing kept the answer is no, after the same work: how long it takes
        does not tell which accounts there are."""
        _, cost, r, p, salt, digest = (kept or self._nobody).split("$")
        found = await self._work(password, int(cost), int(r), int(p), b64decode(salt))
        return hmac.compare_digest(found, b64decode(digest)) and bool(kept)

    async def _work(self, password: str, cost: int, r: int, p: int, salt: bytes) -> bytes:
        data = password.encode("utf-8", "surrogatepass")
        async with self._gate:
            return await asyncio.to_thread(_scrypt, data, salt, cost, r, p)


def _scrypt(password: bytes, salt: bytes, cost: int, r: int, p: int) -> bytes:
    room = 256 * r * (cost + p + 4)
    return hashlib.scrypt(password, salt=salt, n=cost, r=r, p=p, maxmem=room, dklen=_SIZE)


def _text(cost: int, salt: bytes, digest: bytes) -> str:
    return f"scrypt${cost}${_R}${_P}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def check_new(password: str) -> None:
    """Raises :class:`Problem` unless ``password`` may be chosen."""
    if not LEAST <= len(password) <= _MOST:
        raise Problem(
            "invalid",
            f"a password has {LEAST} to {_MOST} characters",
            hint="several words are easier to remember than one odd one",
            field="password",
        )
