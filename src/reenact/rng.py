"""Randomness for programs that choose explicitly what is recorded.

Values drawn inside a session are recorded and re-enacted for every caller. Without a session they
come from the module ``random``. Programs that use ``random``, ``uuid`` and the like do not need it,
because their own modules are covered.
"""

from __future__ import annotations

import random as _random
import uuid as _uuid
from operator import index as _index

from reenact.boundaries.random.recorded_values import ANYBODY, apart, bits, drawn, text
from reenact.engine.session.current import current

__all__ = [
    "bytes",
    "choice",
    "choices",
    "gauss",
    "getrandbits",
    "randint",
    "random",
    "randrange",
    "sample",
    "shuffle",
    "uniform",
    "uuid4",
]


class _Generator(_random.Random):
    """All that it gives is made of :meth:`random`, :meth:`getrandbits` and :meth:`gauss`."""

    def random(self) -> float:
        """A float from 0 to 1, without 1."""
        if current() is None:
            return _random.random()
        found: float = drawn("rng random.random", lambda: apart(_random.random), ANYBODY)
        return found

    def getrandbits(self, k: int, /) -> int:
        """An integer of ``k`` bits."""
        count = int(_index(k))
        if current() is None or count <= 0:
            return _random.getrandbits(count)
        name = f"rng random.getrandbits({count})"
        return bits(name, count, lambda: apart(lambda: _random.getrandbits(count)), ANYBODY)

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """A normally distributed float."""
        if current() is None:
            return _random.gauss(mu, sigma)
        z: float = drawn(
            "rng random.gauss", lambda: apart(lambda: _random.gauss(0.0, 1.0)), ANYBODY
        )
        return mu + z * sigma


_generator = _Generator()
random = _generator.random
getrandbits = _generator.getrandbits
gauss = _generator.gauss
choice = _generator.choice
choices = _generator.choices
randint = _generator.randint
randrange = _generator.randrange
sample = _generator.sample
shuffle = _generator.shuffle
uniform = _generator.uniform
bytes = _generator.randbytes


def uuid4() -> _uuid.UUID:
    """A random identifier."""
    if current() is None:
        return _uuid.uuid4()
    found, instead = text("rng uuid.uuid4", lambda: str(apart(_uuid.uuid4)), ANYBODY)
    return _uuid.UUID(found) if found else _uuid.UUID(bytes=instead, version=4)
