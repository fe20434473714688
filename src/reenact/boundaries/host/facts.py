"""Facts of the machine that a function tells: how one is asked for, recorded and served."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from types import BuiltinFunctionType
from typing import Any, Final

import msgspec

from reenact.boundaries.callers import Tier, tier_of
from reenact.boundaries.host.told import check_allowed, told_in
from reenact.boundaries.rebinding import like_builtin
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = [
    "PLAIN",
    "TUPLE",
    "Args",
    "Form",
    "Make",
    "Module",
    "Named",
    "fact",
    "standing_in",
]

_frame = sys._getframe

Make = Callable[[Any], Any]
"""From an original function to the one that stands in for it."""

Module = dict[str, Any]
"""The globals of the code that asks."""

Args = tuple[Any, ...]
Named = dict[str, Any]

_RAISED: Final = "raised"
_ERRORS: Final[Mapping[str, type[Exception]]] = {
    "KeyError": KeyError,
    "OSError": OSError,
    "ValueError": ValueError,
}


class Form(msgspec.Struct, frozen=True):
    """How what a function returns becomes JSON, and again what it was."""

    dump: Callable[[Any], Any] = lambda value: value
    load: Callable[[Any], Any] = lambda value: value


PLAIN: Final = Form()
TUPLE: Final = Form(list, tuple)


def fact(name: str, form: Form = PLAIN, *, lasting: bool = True) -> Make:
    """Wraps the function that is called ``name``: what it says is drawn. ``lasting`` is what does
    not change while the program runs."""

    def make(original: Any) -> Any:
        def told(session: Session, module: Module, args: Args, kwargs: Named) -> Any:
            key = _key(name, args, kwargs)
            if key is None:
                return original(*args, **kwargs)
            return _ask(session, key, lambda: original(*args, **kwargs), form, lasting=lasting)

        return standing_in(original, told)

    return make


def standing_in(
    original: Any,
    told: Callable[[Session, Module, Args, Named], Any],
    *,
    to: Collection[Tier] = ("user", "library"),
    asks: bool = True,
) -> Any:
    """A function in place of ``original``: ``told`` answers whoever is of the tiers ``to``, and is
    given the globals of the caller. ``asks`` is what a policy may refuse.

    The standard library keeps some of them for its finalizers, which run when our own names are
    gone.
    """
    is_over, frame = sys.is_finalizing, _frame

    def answer(module: Module, args: Args, kwargs: Named) -> Any:
        session = current()
        if session is None or tier_of(module) not in to:
            return original(*args, **kwargs)
        if asks:
            check_allowed(session, module)
        return told(session, module, args, kwargs)

    if isinstance(original, BuiltinFunctionType):

        def built_in(_: Any, /, *args: Any, **kwargs: Any) -> Any:
            if is_over():
                return original(*args, **kwargs)
            return answer(frame(1).f_globals, args, kwargs)

        return like_builtin(built_in, original)

    @wraps(original)
    def written(*args: Any, **kwargs: Any) -> Any:
        if is_over():
            return original(*args, **kwargs)
        return answer(frame(1).f_globals, args, kwargs)

    return written


def _ask(session: Session, key: str, live: Callable[[], Any], form: Form, *, lasting: bool) -> Any:
    """What ``live`` says, or said in the recording; raises what it raised."""
    facts = told_in(session).facts
    known = lasting and not session.writes and key in facts

    def now() -> Any:
        return facts[key] if known else _said(live, form)

    said = facts[key] = session.draws.draw_aside(f"env {key}", now)
    if isinstance(said, dict) and _RAISED in said:
        raise _error(said)
    return form.load(said)


def _said(live: Callable[[], Any], form: Form) -> Any:
    token = enter_session(OUTSIDE)  # some of them start a process to find out
    try:
        return form.dump(live())
    except (KeyError, OSError, ValueError) as error:
        kind = next(name for name, one in _ERRORS.items() if isinstance(error, one))
        return {_RAISED: kind, "args": [_plain(one) for one in error.args]}
    finally:
        leave_session(token)


def _error(said: Mapping[str, Any]) -> Exception:
    return _ERRORS.get(str(said[_RAISED]), OSError)(*said.get("args", ()))


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, type(None))) else os.fspath(value)


def _key(name: str, args: Args, kwargs: Named) -> str | None:
    """What is asked for; None where it cannot be said in a word."""
    given = [*args, *kwargs.values()]
    if not given:
        return name
    if not all(map(_is_plain, given)):
        return None
    words = [*map(repr, args), *(f"{word}={value!r}" for word, value in kwargs.items())]
    return f"{name}({', '.join(words)})"


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return isinstance(value, (str, int, type(None)))
