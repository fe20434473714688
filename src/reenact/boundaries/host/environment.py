"""Environment variables, as the user's own modules and installed libraries read them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from types import FrameType, ModuleType
from typing import Any, Final

from reenact.boundaries.caller_tier import tier_of
from reenact.boundaries.host.facts import Told, as_written, check_allowed, tell, told_in
from reenact.engine.patches.patch import Installable
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = [
    "environment_patches",
    "known_environment",
]

_frame = sys._getframe
_Method = Callable[..., Any]

_THROUGH: Final = frozenset({"collections.abc", "ntpath", "os", "posixpath", "pprint", __name__})
"""Modules that read the environment on behalf of their callers."""

_HIDDEN: Final = "***REDACTED"
_RUNNERS: Final = "PYTEST_"
"""Prefix of variables in which a test runner describes the current test.

They belong to this run, not to the program.
"""
_ALL: Final = "os.environ"


def known_environment(session: Session) -> dict[str, str]:
    """Return the environment as the program sees it: values that it read, and otherwise the current
    ones."""
    told, data = told_in(session), os.environ._data  # type: ignore[attr-defined]
    there = {os.fsdecode(name): os.fsdecode(value) for name, value in data.items()}
    heard = {name: _shown(*pair) for name, pair in told.variables.items() if name not in told.own}
    known = there | heard
    names = list(known)
    if _ALL in told.others:
        names = _with_own(told, _texts(told.others[_ALL][1]), list(there))
        names += [name for name in there if name.startswith(_RUNNERS)]
    return {name: value for name in names if (value := known.get(name)) is not None}


def environment_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of ``os.environ`` and ``os.environb``."""
    data = module.environ._data
    twins = (getattr(module, name, None) for name in ("environ", "environb"))
    return [_Retold(one) for one in twins if getattr(one, "_data", None) is data]


class _Retold:
    """Replacement of the class of ``environ`` while sessions are open.

    The methods of its own class are not patched. Python 3.13 can keep calling the old
    ``__getitem__`` of a class whose methods were replaced a thousand times, and a test suite opens
    more sessions than that.
    """

    def __init__(self, environ: Any) -> None:
        self._environ = environ
        self._own: type | None = None

    @property
    def places(self) -> list[str]:
        """What it replaces."""
        return [f"{type(self._environ).__name__}.{name}" for name in _METHODS]

    def install(self) -> None:
        own = type(self._environ)
        self._environ.__class__ = _retelling(own, self._environ._data)
        self._own = own

    def remove(self) -> None:
        """Restore the class, unless other code has changed it in the meantime."""
        own, self._own = self._own, None
        if own is not None and type(self._environ) is _retelling(own, self._environ._data):
            self._environ.__class__ = own


_kinds: dict[type, tuple[Any, type]] = {}


def _retelling(own: type, data: Any) -> type:
    """The class, made once, which looks like the one it is made of."""
    known, kind = _kinds.get(own, (None, own))
    if known is not data:
        methods = {
            name: _only_of(data, getattr(own, name), make) for name, make in _METHODS.items()
        }
        names = {"__module__": own.__module__, "__qualname__": own.__qualname__}
        kind = type(own.__name__, (own,), {**names, **methods})
        _kinds[own] = data, kind
    return kind


def _only_of(data: Any, original: _Method, make: Callable[[_Method], _Method]) -> _Method:
    """Apply the replacement only to ``os.environ``, not to copies of the same class."""
    ours = make(original)

    @wraps(original)
    def method(self: Any, *args: Any) -> Any:
        ask = original if current() is None or self._data is not data else ours
        return ask(self, *args)

    return method


def _reader() -> Session | None:
    """Return the session, unless plumbing reads the variable.

    Called by the functions that :func:`_only_of` returns: their caller is three frames up.
    """
    frame: FrameType | None = _frame(3)
    while frame is not None and frame.f_globals.get("__name__") in _THROUGH:
        frame = frame.f_back
    session = current()
    if session is None or frame is None:
        return None
    tier = tier_of(frame.f_globals)
    if tier == "plumbing":
        return None
    if tier == "user":
        check_allowed(session, frame.f_globals)
    return session


# One variable


def _getitem(original: _Method) -> _Method:
    def getitem(self: Any, key: Any) -> Any:
        session, encoded = _reader(), self.encodekey(key)
        if session is None:
            return original(self, key)
        name = key if type(key) is str and key.isascii() else os.fsdecode(encoded)
        told = session.host_facts or told_in(session)
        if not _is_fact(session, told, name):
            return original(self, key)
        found = _value(session, told, self, encoded, name)
        if found is None:
            raise KeyError(key)
        return self.decodevalue(os.fsencode(found))

    return getitem


@lru_cache(maxsize=512)
def _as_read(value: bytes) -> str | bytes:
    """Return the value of a variable in the form in which it is recorded."""
    return as_written(os.fsdecode(value))


def _is_fact(session: Session, told: Told, name: str) -> bool:
    """Return whether a variable comes from the machine and can be recorded."""
    if not name.isprintable() or name.startswith(_RUNNERS):
        return False
    return name not in told.own and not session.hides(name)


def _value(session: Session, told: Told, environ: Any, encoded: bytes, name: str) -> str | None:
    """Return the value of the variable for the program, or None if it is not set."""
    found = environ._data.get(encoded)
    now = None if found is None else _as_read(found)
    fresh = session.settings.current_environment
    return _shown(now, tell(session, told.variables, name, now, fresh=fresh))


def _shown(now: Any, then: Any) -> str | None:
    """Return the recorded value.

    If a secret in it was redacted, return the current value if there is one.
    """
    found = None if then is None else os.fsdecode(then)
    if found is not None and now is not None and _HIDDEN in found:
        return os.fsdecode(now)
    return found


def _setitem(original: _Method) -> _Method:
    def setitem(self: Any, key: Any, value: Any) -> None:
        original(self, key, value)
        _make_own(self.encodekey(key), gone=False)

    return setitem


def _delitem(original: _Method) -> _Method:
    """Replace ``__delitem__``, which also reads because it fails for a missing variable."""

    def delitem(self: Any, key: Any) -> None:
        session, encoded = _reader(), self.encodekey(key)
        name = os.fsdecode(encoded)
        if session is None or not _is_fact(session, told_in(session), name):
            original(self, key)
        elif _value(session, told_in(session), self, encoded, name) is None:
            raise KeyError(key)
        elif encoded in self._data:
            original(self, key)
        _make_own(encoded, gone=True)

    return delitem


def _make_own(encoded: bytes, *, gone: bool) -> None:
    session, name = current(), os.fsdecode(encoded)
    if session is None:  # another thread has just closed it
        return
    told = told_in(session)
    told.own.add(name)
    if gone:
        told.gone.add(name)


# All of them


def _iter(original: _Method) -> _Method:
    def names(self: Any) -> Iterator[Any]:
        session = _reader()
        if session is None:
            return iter(original(self))
        return iter([self.decodekey(os.fsencode(name)) for name in _names(session, self)])

    return names


def _len(original: _Method) -> _Method:
    def count(self: Any) -> int:
        session = _reader()
        return int(original(self)) if session is None else len(_names(session, self))

    return count


def _repr(original: _Method) -> _Method:
    def text(self: Any) -> str:
        session = _reader()
        if session is None:
            return str(original(self))
        names = [self.decodekey(os.fsencode(name)) for name in _names(session, self)]
        items = ", ".join(f"{name!r}: {self[name]!r}" for name in names if name in self)
        return f"environ({{{items}}})"

    return text


def _names(session: Session, environ: Any) -> list[str]:
    """Return the variable names for the program.

    Secret names are not recorded, so a secret that is not set is not listed.
    """
    told, everything = told_in(session), [os.fsdecode(name) for name in environ._data]
    there = [name for name in everything if not name.startswith(_RUNNERS)]
    if told.names is None or (session.writes and _with_own(told, told.names, there) != there):
        told.names = there
        told.gone.clear()
    now = list(map(as_written, told.names))
    names = tell(session, told.others, _ALL, now, fresh=session.settings.current_environment)
    found = _with_own(told, _texts(names), there)
    known = [name for name in found if name in there or not session.hides(name)]
    return [name for name in everything if name.startswith(_RUNNERS)] + known


def _texts(names: list[Any]) -> list[str]:
    return [os.fsdecode(name) for name in names]


def _with_own(told: Told, names: list[str], there: list[str]) -> list[str]:
    """``names``, with what the program itself has set and taken away since."""
    own = told.own.intersection(there)
    stayed = own - told.gone
    kept = [name for name in names if name not in told.own or name in stayed]
    added = own.difference(kept)
    return kept + [name for name in there if name in added]


_METHODS: Final = {
    "__getitem__": _getitem,
    "__iter__": _iter,
    "__len__": _len,
    "__repr__": _repr,
    "__setitem__": _setitem,
    "__delitem__": _delitem,
}
