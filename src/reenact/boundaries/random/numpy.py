"""Boundary for ``numpy.random``.

Generators of the program (``default_rng()``, ``RandomState()``) seed themselves with a number that
is drawn. The functions of the module share one generator, which any code can seed, read and set:

- After it was seeded, it works as it does without Reenact.
- If it existed before the session, its seed is unknown. The state that the program finds is drawn
  once.
- Under ``reenact run`` it starts with a seed that is derived from the seed of the run, so the time
  of its import does not matter. Until the program seeds it, each lane has its own generator:
  threads do not disturb each other, and neither does a tool that is not run.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from reenact._system import entropy
from reenact.boundaries.caller_tier import Tier
from reenact.boundaries.function_patches import Attribute, Rebinding
from reenact.boundaries.random.recorded_values import apart, bits, drawer, drawn
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current

if TYPE_CHECKING:
    from reenact.engine.session.session import Session

__all__ = ["patches"]

_GENERATOR, _STATE = "MT19937", 624 * 4
"""Default type of the shared generator, and the size of its state in bytes."""
_SEED = 128
"""Bits of a seed that is drawn."""
_SEEDS = ("seed", "set_state", "set_bit_generator")
"""Functions that set the state of the shared generator."""
_OTHER_NAMES = {"ranf": "random_sample", "sample": "random_sample"}


def patches(module: ModuleType) -> list[Installable]:
    """Return the patches of the module ``numpy.random``."""
    shared = module.mtrand._rand
    found = _Shared(shared, module.RandomState)
    methods = {
        name for name, value in vars(module).items() if getattr(value, "__self__", None) is shared
    }
    names = {name: name for name in methods.difference(_SEEDS)} | _OTHER_NAMES
    replacements = {name: _drawing(found, name, method) for name, method in names.items()}
    replacements |= {name: _seeding(found, name) for name in _SEEDS}
    return [
        found,
        Attribute(module.bit_generator, "randbits", _randbits),
        Rebinding(module, replacements),
    ]


def _randbits(original: Any) -> Any:
    """Replace the function that provides the seed of a generator."""

    def randbits(count: int) -> int:
        if current() is None:
            found: int = original(count)
            return found
        live = lambda: apart(lambda: int(original(count)))  # noqa: E731 - no name would say more
        return bits("rng numpy.random.SeedSequence", count, live, 1)

    return randbits


def _drawing(shared: _Shared, name: str, method: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def function(_: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(shared.here(1), method)(*args, **kwargs)

        return _bound(function, original, name)

    return make


def _seeding(shared: _Shared, name: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def function(_: Any, *args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values()]
            if name != "seed" or (given and given[0] is not None):
                shared.seeded(1)
                return original(*args, **kwargs)
            return original(shared.seed_anew(1))

        return _bound(function, original, name)

    return make


class _Home:
    """Stands for ``numpy.random``, also when it is pickled."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        from importlib import import_module

        return import_module, ("numpy.random",)


def _bound(function: Any, original: Any, name: str) -> Any:
    """Return ``function`` in a form that does not become a method as a class attribute."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = original.__doc__
    function.__module__ = "numpy.random"
    return MethodType(function, _Home())


class _Known:
    """State of the shared generator in one session."""

    def __init__(self, *, alone: bool) -> None:
        self.alone = alone
        """True if only Reenact has seeded it."""
        self.found: set[Tier] = {"user", "library"} if alone else set()
        """Tiers for which the state is known."""
        self.lanes: dict[str, Any] = {}


class _Shared:
    """The generator that the functions of the module share, ``state``."""

    def __init__(self, state: Any, kind: Any) -> None:
        self._state = state
        self._kind = kind
        self._known: WeakKeyDictionary[Session, _Known] = WeakKeyDictionary()

    def install(self) -> None:
        session = current()
        if session is not None and _derives(session):
            name = f"{session.settings.run_seed}/numpy.random/{session.lanes.root.name}"
            digest = hashlib.sha256(name.encode()).digest()
            self._state.seed(list(struct.unpack("<8I", digest)))
            self._known[session] = _Known(alone=True)

    def remove(self) -> None:
        self._known.clear()

    def here(self, depth: int) -> Any:
        """Return the generator for the code ``depth`` frames above the caller."""
        session = current()
        if session is None:
            return self._state
        tier = drawer(depth + 1)
        if tier == "plumbing":
            return self._state
        known = self._of(session)
        if known.alone and tier == "user":
            lane = session.lanes.current().name
            if lane not in known.lanes:
                number = bits("rng numpy.random", _SEED, _fresh, depth + 1)
                known.lanes[lane] = apart(lambda: self._kind(_words(number)))
            return known.lanes[lane]
        if tier not in known.found:
            known.found.add(tier)
            self._find(depth + 1)
        return self._state

    def _of(self, session: Session) -> _Known:
        with session.lock:
            known = self._known.get(session)
            if known is None:
                known = self._known[session] = _Known(alone=False)
            return known

    def _find(self, depth: int) -> None:
        """Set the state of the generator to the recorded one."""
        if self._state.get_state(legacy=False)["bit_generator"] != _GENERATOR:
            return
        found = drawn("rng numpy.random.state", lambda: _written(self._state), depth + 1)
        key, position, has_gauss, gauss = found if isinstance(found, list) else (b"", 0, 0, 0.0)
        if isinstance(key, bytes) and len(key) == _STATE:
            self._state.set_state(
                (_GENERATOR, struct.unpack("<624I", key), position, has_gauss, gauss)
            )

    def seeded(self, depth: int) -> None:
        """Handle a new seed or state.

        A seed of the program is the same in a replay. A seed of other code, such as a test runner,
        can differ.
        """
        session = current()
        if session is not None:
            known = self._of(session)
            known.alone = False
            known.found = {"user", "library"} if drawer(depth + 1) == "user" else set()

    def seed_anew(self, depth: int) -> list[int] | None:
        """Return a seed for a call without one."""
        session = current()
        if session is None:
            return None
        known = self._of(session)
        known.lanes.clear()
        known.alone, known.found = _derives(session), {"user", "library"}
        return _words(bits("rng numpy.random.seed", _SEED, _fresh, depth + 1))


def _derives(session: Session) -> bool:
    """Return whether the program runs under ``reenact run`` and random values are recorded."""
    settings = session.settings
    return bool(settings.run_seed) and settings.policy.action_for("random", "") == "record"


def _fresh() -> int:
    return int.from_bytes(entropy(_SEED // 8), "big")


def _words(number: int) -> list[int]:
    return list(struct.unpack("<4I", number.to_bytes(_SEED // 8, "little")))


def _written(state: Any) -> list[Any]:
    _, key, position, has_gauss, gauss = state.get_state()
    return [struct.pack("<624I", *map(int, key)), int(position), int(has_gauss), float(gauss)]
