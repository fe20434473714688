"""Random values of ``random``, and the names of ``tempfile``.

The generator shared by the functions of ``random`` becomes an instance of a subclass, so every
existing reference to one of its functions draws from the session. Functions that are written in C,
or that store a value for their next call, are replaced. Equal seeds in a replay would not suffice:
threads share the generator in changing order, and a tool that is not run takes no values.

A file with a recorded temporary name can exist already, left by the recorded run. The program then
gets a different name.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from operator import index
from types import FrameType, ModuleType
from typing import Any

from reenact._system import entropy
from reenact.boundaries.caller_tier import tier_of
from reenact.boundaries.function_patches import Attribute, Rebinding
from reenact.boundaries.random.recorded_values import apart, bits, drawn, text
from reenact.boundaries.random.urandom import urandom_like
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

__all__ = [
    "random_patches",
    "tempfile_patches",
]


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
            return live(count)  # raises the error for an invalid count
        return bits(f"rng random.getrandbits({count})", count, lambda: live(count), 1)

    def gauss(self, mu: float = 0.0, sigma: float = 1.0) -> float:
        """Return a normally distributed value.

        Values are generated in pairs, and the second is kept for the next call.
        """
        live = super().gauss
        if current() is None:
            return live(mu, sigma)
        z: float = drawn("rng random.gauss", lambda: apart(lambda: live(0.0, 1.0)), 1)
        return mu + z * sigma

    def getstate(self) -> tuple[Any, ...]:
        """Return the state of the generator."""
        live = super().getstate
        if current() is None:
            return live()
        found = drawn("rng random.getstate", lambda: _listed(live()), 1)
        if not isinstance(found, list):  # a lenient replay without a recorded state
            return live()
        version, numbers, following = found
        return version, tuple(numbers), following

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain, (), super().getstate()


_Shared.__name__, _Shared.__qualname__, _Shared.__module__ = "Random", "Random", "random"


def _listed(state: Any) -> list[Any]:
    version, numbers, following = state
    return [version, list(numbers), following]


def random_patches(module: ModuleType) -> list[Installable]:
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
    """Change of the shared generator's class, unless other code has changed it."""

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
        # Draws of the shared generator are recorded themselves.
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


def tempfile_patches(module: ModuleType) -> list[Installable]:
    """The patches of the module ``tempfile``."""
    return [Attribute(module, "_get_candidate_names", _candidates)]


def _candidates(original: Callable[[], Iterator[str]]) -> Callable[[], Iterator[str]]:
    def _get_candidate_names() -> Iterator[str]:
        names = original()
        asks = _frame(1).f_back
        if current() is None or (asks is not None and asks.f_code.co_name == "TemporaryFile"):
            return names  # its name is not visible; on most systems it has none
        return _Names(names)

    return _get_candidate_names


class _Names:
    """The names that one call of ``tempfile`` tries, until there is nothing that has it."""

    def __init__(self, names: Iterator[str]) -> None:
        self._names = names
        self._tried = ""

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> str:
        session = current()
        if session is None:
            return next(self._names)
        if self._tried and _frame(1).f_globals.get("__name__") == "tempfile":
            session.warn_once(
                f"something with the temporary name {self._tried} exists already: the program gets "
                "another name"
            )
            return apart(lambda: next(self._names))
        found, instead = text("rng tempfile.name", lambda: apart(lambda: next(self._names)), 1)
        self._tried = found or instead.hex()[:8]
        return self._tried
