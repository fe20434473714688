"""The generators of the module ``random``.

The one that all its functions share becomes one of a subclass, so that whoever has a name for one
of its functions draws from the session; a few of them are written in C, or keep something for the
next time, and are replaced. To seed it alike in a replay would not do: threads take turns with it,
and a tool that is not run takes none.

A generator of the program's own, ``Random()``, is seeded with a number that is drawn. One that is
given a seed is as it is without us.
"""

from __future__ import annotations

import random
import sys
from operator import index
from types import FrameType, ModuleType
from typing import Any

from reenact._system import entropy
from reenact.boundaries.callers import tier_of
from reenact.boundaries.chance.attributes import Attribute
from reenact.boundaries.chance.drawing import apart, bits, drawn
from reenact.boundaries.chance.system import urandom_like
from reenact.boundaries.rebinding import Rebinding
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = ["seams"]

_frame = sys._getframe
_plain = random.Random
_SEED = 128
"""Bits of a seed that is drawn."""


class _Shared(_plain):
    """The shared generator, while a session is open."""

    def random(self) -> float:
        """A float from 0 to 1."""
        session = current()
        if session is None:
            return _plain.random(self)
        if tier_of(_frame(1).f_globals) == "user":
            found: float = session.draws.draw("rng random.random", super().random)
            return found
        return float(drawn("rng random.random", super().random, 1))

    def getrandbits(self, k: int, /) -> int:
        """An integer of ``k`` bits."""
        if current() is None:
            return _plain.getrandbits(self, k)
        live = super().getrandbits
        count = int(index(k))
        if count <= 0:
            return live(count)  # which may say what is wrong
        return bits(f"rng random.getrandbits({count})", count, lambda: live(count), 1)

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Normally distributed. They are made two at a time, and the second one is kept for
        whoever comes next."""
        live = super().gauss
        if current() is None:
            return live(mu, sigma)
        z: float = drawn("rng random.gauss", lambda: apart(lambda: live(0.0, 1.0)), 1)
        return mu + z * sigma

    def getstate(self) -> tuple[Any, ...]:
        """What the generator goes on from."""
        live = super().getstate
        if current() is None:
            return live()
        found = drawn("rng random.getstate", lambda: _listed(live()), 1)
        if not isinstance(found, list):  # a lenient replay knows of none
            return live()
        version, numbers, following = found
        return version, tuple(numbers), following

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, (), super().getstate()


_Shared.__name__, _Shared.__qualname__, _Shared.__module__ = "Random", "Random", "random"


def _listed(state: Any) -> list[Any]:
    version, numbers, following = state
    return [version, list(numbers), following]


def seams(module: ModuleType) -> list[Installable]:
    """The patches of the module ``random``."""
    inst: Any = module._inst
    return [
        _Becoming(inst),
        Rebinding(
            module,
            {name: _method(inst, name) for name in ("random", "getrandbits", "gauss", "getstate")},
        ),
        Attribute(module.Random, "seed", _seeding),
        Attribute(module, "_urandom", urandom_like),
    ]


def _method(inst: Any, name: str) -> Any:
    return lambda original: getattr(inst, name)


class _Becoming:
    """The shared generator is of our class, unless somebody has given it another."""

    def __init__(self, inst: Any) -> None:
        self._inst = inst

    def install(self) -> None:
        if type(self._inst) is _plain:
            self._inst.__class__ = _Shared

    def remove(self) -> None:
        kind: type = type(self._inst)
        if kind is _Shared:
            self._inst.__class__ = _plain


def _seeding(original: Any) -> Any:
    def seed(self: Any, a: Any = None, version: int = 2) -> None:
        # What is drawn of the shared one is recorded itself.
        if a is None and type(self) is not _Shared and current() is not None:
            a = _drawn_seed()
        original(self, a, version)

    seed.__doc__ = original.__doc__
    seed.__qualname__, seed.__module__ = original.__qualname__, original.__module__
    return seed


def _drawn_seed() -> int | None:
    """None for the generator of temporary names: those are drawn one by one."""
    frame: FrameType | None = _frame(2)
    while frame is not None and frame.f_globals.get("__name__") == "random":
        frame = frame.f_back
    if frame is not None and frame.f_globals.get("__name__") == "tempfile":
        return None
    return bits("rng random.Random", _SEED, _fresh, 2)


def _fresh() -> int:
    return int.from_bytes(entropy(_SEED // 8), "big")
