"""Passwords: kept as scrypt hashes that say how they were made."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from reenact._system import entropy
from reenact.server.problems import Problem

__all__ = ["LEAST", "Passwords", "check_new"]

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
        """What is kept of ``password``."""
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
