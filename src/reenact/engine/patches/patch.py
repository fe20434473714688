"""Patch primitives: replace a function or a method, also of a C type, and restore it.

Each wrapper is installed once per process and looks up the current session when it is called.
When the last session closes, everything is restored. Patches of modules that are not imported yet
are applied by an import hook. All of them share one finder, because each additional one would
slow down every import of the program.

::

    PatchSet: acquire (first user) ──install──> in place ──release (last user)──> removed

Invariants: patches are removed in the reverse order of their installation. A patch that
a different tool has wrapped stays in place and calls the original.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import GetSetDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

__all__ = [
    "DeferredPatch",
    "DeferredPatches",
    "ImportHook",
    "Installable",
    "ListedPatch",
    "Patch",
    "PatchSet",
    "TypePatch",
    "set_type_attribute",
]


class ImportHook:
    """``act(module)`` right after ``name`` was imported; at once if it is already there."""

    def __init__(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._act = act

    def install(self) -> None:
        module = sys.modules.get(self._name)
        if module is not None:
            self._act(module)
        else:
            _FINDER.add(self._name, self._act)

    def remove(self) -> None:
        _FINDER.discard(self._name, self._act)


class _Finder:
    """Single finder for all import hooks. Each additional finder would slow down every import."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[ModuleType], None]]] = {}
        self._looking: set[str] = set()

    def add(self, name: str, act: Callable[[ModuleType], None]) -> None:
        self._waiting.setdefault(name, []).append(act)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def discard(self, name: str, act: Callable[[ModuleType], None]) -> None:
        left = [one for one in self._waiting.pop(name, ()) if one != act]
        if left:
            self._waiting[name] = left
        if not self._waiting and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._waiting or fullname in self._looking:
            return None
        self._looking.add(fullname)  # the others are asked, not we again
        try:
            spec = find_spec(fullname)
        finally:
            self._looking.discard(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = cast("Loader", _Acting(spec.loader, self._acts(fullname)))
        return spec

    def _acts(self, name: str) -> Callable[[ModuleType], None]:
        """Return a function that calls the hooks of ``name`` in their order of registration."""

        def act(module: ModuleType) -> None:
            for one in list(self._waiting.get(name, ())):
                one(module)

        return act


_FINDER = _Finder()


class _Acting:
    """Loader that calls the hooks once after the module was loaded."""

    def __init__(self, loader: Any, act: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._act = act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._loader.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._act(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


Wrap = Callable[[Any], Any]
"""Function from the original to its replacement."""

_ABSENT = object()


class Installable(Protocol):
    """Something that is put in place, and taken away again."""

    def install(self) -> None: ...
    def remove(self) -> None: ...


class ListedPatch(Installable, Protocol):
    """A patch that can be listed."""

    @property
    def places(self) -> list[str]:
        """Dotted names that it replaces."""
        ...


class Patch:
    """Replacement of ``owner.name`` with ``wrap(original)`` while installed.

    Code that still holds the replacement after its removal reaches the original, because the next
    session has a wrapper of its own and a spawn must not be counted twice. ``repeatable`` saves
    that detour for a wrapper without any effect if it is called outside a session, or twice.
    """

    __slots__ = ("_before", "_installed", "_name", "_on", "_owner", "_repeatable", "_wrap")

    def __init__(self, owner: Any, name: str, wrap: Wrap, *, repeatable: bool = False) -> None:
        self._repeatable = repeatable
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
        # The attribute of the class itself: a class method is put back as a class method, and what
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
        if self._repeatable:
            return wraps(original)(wrapped)

        @wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return (wrapped if self._on else original)(*args, **kwargs)

        return patched

    def remove(self) -> None:
        """Restore the original, unless a different tool has replaced the patch."""
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


def set_type_attribute(owner: type, name: str, descriptor: Any) -> None:
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
        set_type_attribute(self._owner, self._name, self._installed)

    def remove(self) -> None:
        set_type_attribute(self._owner, self._name, self._before)


_CLASS_METHODS: Final = (classmethod, type(vars(dict)["fromkeys"]))


class DeferredPatch:
    """A patch of a module that may not have been imported yet; ``find(module)`` is its owner.

    A version of the module that does not have the place is left alone: importing it must work.
    """

    __slots__ = ("_find", "_module", "_name", "_patch", "_watch", "_wrap")

    def __init__(
        self, module: str, find: Callable[[ModuleType], Any], name: str, wrap: Wrap
    ) -> None:
        self._module = module
        self._find = find
        self._name = name
        self._wrap = wrap
        self._patch: Patch | None = None
        self._watch = ImportHook(module, self._imported)

    @property
    def places(self) -> list[str]:
        """Dotted name that it replaces, or nothing where the module is missing or differs."""
        try:
            found = self._found(import_module(self._module))
        except ImportError:
            return []
        return [] if found is None else found.places

    def _found(self, module: ModuleType) -> Patch | None:
        try:
            owner = self._find(module)
        except AttributeError:
            return None
        return Patch(owner, self._name, self._wrap) if hasattr(owner, self._name) else None

    def _imported(self, module: ModuleType) -> None:
        self._patch = self._found(module)
        if self._patch is not None:
            self._patch.install()

    def install(self) -> None:
        self._watch.install()

    def remove(self) -> None:
        self._watch.remove()
        if self._patch is not None:
            self._patch.remove()


class DeferredPatches:
    """``make(module)`` makes patches as soon as the program has imported the module ``name``."""

    def __init__(self, name: str, make: Callable[[ModuleType], Sequence[Installable]]) -> None:
        self._make = make
        self._installed: list[Installable] = []
        self._watch = ImportHook(name, self._imported)

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


class PatchSet:
    """A set of patches that is installed while anybody needs it.

    ``opened`` is called with every session that has opened with them. ``in_replay`` are more of them
    that only replays need, so that recordings do not pay for them.
    """

    def __init__(
        self,
        make: Callable[[], Sequence[Installable]],
        *,
        opened: Callable[[Any], None] = lambda session: None,
        in_replay: PatchSet | None = None,
    ) -> None:
        self.opened = opened
        self.in_replay = in_replay
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._installed: list[Installable] = []

    def acquire(self) -> None:
        """Install the patches for the first user. If one fails, none is installed."""
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
        """Remove the patches after the last user."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._remove()

    def _remove(self) -> None:
        for patch in reversed(self._installed):
            patch.remove()
        self._installed = []

    def after_fork(self) -> None:
        """Replace the lock in a forked child, where its holder does not exist."""
        self._lock = threading.Lock()
