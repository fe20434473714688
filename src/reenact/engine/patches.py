"""Replacing functions of the standard library while a session is open, and putting them back.

One wrapper each, installed once for the process; it asks which session is in force where it is
called. When the last session closes everything is as it was.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from types import GetSetDescriptorType, ModuleType
from typing import Any, Final, Protocol

from reenact.engine.imports import ImportWatch

__all__ = [
    "Installable",
    "LatePatch",
    "LatePatches",
    "Patch",
    "Patches",
    "TypePatch",
    "put_in_type",
]

Wrap = Callable[[Any], Any]
"""From what stood there to what shall stand there."""

_ABSENT = object()


class Installable(Protocol):
    """Something that is put in place, and taken away again."""

    def install(self) -> None: ...
    def remove(self) -> None: ...


class Patch:
    """``wrap(original)`` makes what stands at ``owner.name`` while it is installed.

    If somebody replaces ours and keeps calling it after its removal, it calls the original: the
    next session brings a wrapper of its own, and a spawn must not be counted twice.
    """

    __slots__ = ("_before", "_installed", "_name", "_on", "_owner", "_wrap")

    def __init__(self, owner: Any, name: str, wrap: Wrap) -> None:
        self._owner = owner
        self._name = name
        self._wrap = wrap
        self._before: Any = _ABSENT
        self._installed: Any = None
        self._on = False

    @property
    def places(self) -> list[str]:
        """What it replaces."""
        owner = self._owner
        home = owner.__name__ if isinstance(owner, ModuleType) else owner.__qualname__
        return [f"{home}.{self._name}"]

    def install(self) -> None:
        # What stands in the class itself: a class method is put back as a class method, and what
        # was inherited is inherited again.
        self._before = vars(self._owner).get(self._name, _ABSENT)
        original = getattr(self._owner, self._name)
        installed = self._switched(original, self._wrap(original))
        if isinstance(self._before, (classmethod, staticmethod)):
            installed = staticmethod(installed)
        self._installed, self._on = installed, True
        setattr(self._owner, self._name, installed)

    def _switched(self, original: Any, wrapped: Any) -> Any:
        if not callable(wrapped):
            return wrapped

        @wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return (wrapped if self._on else original)(*args, **kwargs)

        return patched

    def remove(self) -> None:
        """Put the original back, unless somebody has replaced ours in the meantime."""
        self._on = False
        if vars(self._owner).get(self._name) is not self._installed:
            return
        if self._before is _ABSENT:
            delattr(self._owner, self._name)
        else:
            setattr(self._owner, self._name, self._before)


# Types that are written in C
#
# Their attributes cannot be set, so the dictionary behind ``vars(type)`` is changed. Relied on
# (CPython 3.11 to 3.14): ``gc.get_referents`` of the read-only view returns that dictionary, and
# setting ``__abstractmethods__`` makes the interpreter forget the attributes that it has cached.
# The interpreter and the type hold some descriptors without owning them, so neither an original nor
# a replacement is ever released. tests/unit/engine/test_patches.py notices when this changes.

_ABSTRACT: Final = vars(type)["__abstractmethods__"]
_kept: Final[dict[int, Any]] = {}
"""Every descriptor that was ever in the dictionary of such a type, by its id."""


def put_in_type(owner: type, name: str, descriptor: Any) -> None:
    """Set ``owner.name`` for a type written in C; with None, delete it."""
    [names] = [one for one in gc.get_referents(vars(owner)) if type(one) is dict]
    for one in (names.get(name), descriptor):
        _kept[id(one)] = one
    if descriptor is None:
        del names[name]
    else:
        names[name] = descriptor
    _ABSTRACT.__set__(owner, frozenset())
    _ABSTRACT.__delete__(owner)


class TypePatch:
    """A patch of a method or class method of a type written in C, or of setting an attribute of it.

    It also reaches objects that exist already. Make one per method and install it as often as
    needed: its descriptors are never released. A method that fills a slot of the type (``__init__``,
    ``__next__``) cannot be replaced this way.
    """

    __slots__ = ("_before", "_installed", "_name", "_owner")

    def __init__(self, owner: type, name: str, wrap: Wrap) -> None:
        self._owner = owner
        self._name = name
        self._before: Any = vars(owner)[name]
        before = self._before
        if isinstance(before, _CLASS_METHODS):

            def call(cls: type, /, *args: Any, **kwargs: Any) -> Any:
                return before.__get__(None, cls)(*args, **kwargs)

            self._installed: Any = classmethod(wraps(call)(wrap(call)))
        elif isinstance(before, staticmethod):
            self._installed = staticmethod(wrap(before.__func__))
        elif isinstance(before, GetSetDescriptorType):
            self._installed = property(before.__get__, wrap(before.__set__), doc=before.__doc__)
        else:
            self._installed = wraps(before)(wrap(before))

    @property
    def places(self) -> list[str]:
        """What it replaces."""
        return [f"{self._owner.__qualname__}.{self._name}"]

    def install(self) -> None:
        put_in_type(self._owner, self._name, self._installed)

    def remove(self) -> None:
        put_in_type(self._owner, self._name, self._before)


_CLASS_METHODS: Final = (classmethod, type(vars(dict)["fromkeys"]))


class LatePatch:
    """A patch of a module that may not have been imported yet; ``find(module)`` is its owner.

    A version of the module that does not have the place is left alone: importing it must work.
    """

    __slots__ = ("_find", "_name", "_patch", "_watch", "_wrap")

    def __init__(
        self, module: str, find: Callable[[ModuleType], Any], name: str, wrap: Wrap
    ) -> None:
        self._find = find
        self._name = name
        self._wrap = wrap
        self._patch: Patch | None = None
        self._watch = ImportWatch(module, self._imported)

    def _imported(self, module: ModuleType) -> None:
        try:
            owner = self._find(module)
        except AttributeError:
            return
        if hasattr(owner, self._name):
            self._patch = Patch(owner, self._name, self._wrap)
            self._patch.install()

    def install(self) -> None:
        self._watch.install()

    def remove(self) -> None:
        self._watch.remove()
        if self._patch is not None:
            self._patch.remove()


class LatePatches:
    """``make(module)`` makes patches as soon as the program has imported the module ``name``."""

    def __init__(self, name: str, make: Callable[[ModuleType], Sequence[Installable]]) -> None:
        self._make = make
        self._installed: list[Installable] = []
        self._watch = ImportWatch(name, self._imported)

    def _imported(self, module: ModuleType) -> None:
        for patch in self._make(module):
            patch.install()
            self._installed.append(patch)

    def install(self) -> None:
        self._watch.install()

    def remove(self) -> None:
        self._watch.remove()
        for patch in reversed(self._installed):
            patch.remove()
        self._installed = []


class Patches:
    """A set of patches that is installed while anybody needs it.

    ``opened`` is called with every session that has opened with them. ``in_replay`` are more of them
    that only replays need, so that recordings do not pay for them.
    """

    def __init__(
        self,
        make: Callable[[], Sequence[Installable]],
        *,
        opened: Callable[[Any], None] = lambda session: None,
        in_replay: Patches | None = None,
    ) -> None:
        self.opened = opened
        self.in_replay = in_replay
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._installed: list[Installable] = []

    def acquire(self) -> None:
        """Somebody needs them. Should one of them fail, none is installed."""
        with self._lock:
            if self._users == 0:
                self._install()
            self._users += 1

    def _install(self) -> None:
        try:
            for patch in self._make():
                patch.install()
                self._installed.append(patch)
        except BaseException:
            self._remove()
            raise

    def release(self) -> None:
        """Somebody does not need them any more."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._remove()

    def _remove(self) -> None:
        for patch in reversed(self._installed):
            patch.remove()
        self._installed = []

    def after_fork(self) -> None:
        """In a forked child: whoever held the lock is not here."""
        self._lock = threading.Lock()
