"""Facts about the machine and its user, which are served by name and never diverge."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final

import msgspec

from reenact.boundaries.caller_tier import Tier, tier_of
from reenact.boundaries.function_patches import Rebinding, like_builtin
from reenact.boundaries.processes.relay import relay_of
from reenact.engine.call import draw_call
from reenact.engine.draws import RecordedDraws
from reenact.engine.patches.patch import Installable
from reenact.engine.session.context import OUTSIDE, enter_session, leave_session
from reenact.engine.session.current import current
from reenact.engine.session.session import Session

__all__ = [
    "PLAIN",
    "SEAMS",
    "TUPLE",
    "Args",
    "Form",
    "Make",
    "Module",
    "Named",
    "Numbers",
    "Pair",
    "Told",
    "as_written",
    "check_allowed",
    "fact",
    "fact_patches",
    "standing_in",
    "tell",
    "told_in",
]


class Numbers:
    """Mapping between recorded and current process ids.

    ``has_started`` checks whether the program started a current process, and therefore uses its
    current id.
    """

    def __init__(self, has_started: Callable[[int], object] = relay_of) -> None:
        self._has_started = has_started
        self._now: dict[int, int] = {}
        self._then: dict[int, int] = {}

    def learn(self, then: Any, now: Any) -> None:
        """Store that the program sees the process id ``now`` as ``then``."""
        if isinstance(then, int) and isinstance(now, int) and then > 1:
            self._now[then], self._then[now] = now, then

    def now(self, number: Any) -> Any:
        """Return the current id of the process that the program means.

        A negative number is a process group.
        """
        if not isinstance(number, int):
            return number
        if number < 0:
            return -self.now(-number)
        if self._has_started(number):
            return number
        return self._now.get(number, number)

    def is_known(self, now: int) -> bool:
        """Return whether the program started the current process ``now``, or has read its id."""
        return now in self._then or bool(self._has_started(now))

    def then(self, number: int) -> int:
        """Return the process id that the program sees."""
        return self._then.get(number, number)


Pair = tuple[Any, Any]
"""Actual value of a fact when the program read it, and the value that the program got."""


class Told:
    """Facts that the program of one session has read in this process, by name."""

    __slots__ = ("facts", "gone", "has_moved", "names", "others", "own", "pids", "variables")

    def __init__(self) -> None:
        self.variables: dict[str, Pair] = {}
        """Of the environment."""
        self.own: set[str] = set()
        """The variables that the program has set or taken away."""
        self.names: list[str] | None = None
        """Variables that existed when the program last listed all of them."""
        self.gone: set[str] = set()
        """Variables that the program has deleted since then.

        If they are set again, they come last.
        """
        self.others: dict[str, Pair] = {}
        self.facts: dict[str, Any] = {}
        """Facts that do not change while the program runs."""
        self.has_moved = False
        """Has it gone to another folder?"""
        self.pids = Numbers()


_ANY: Final = draw_call("env", "")


def check_allowed(session: Session, module: dict[str, Any]) -> None:
    """Raise the refusal of a policy that forbids facts about the machine.

    It applies to the user's modules only. Libraries can read facts in any case.
    """
    if tier_of(module) != "user" or _ANY.source in session.free_draws:
        return
    with session.lock:
        refusal = session.machine.refusal_of(_ANY)
    if refusal is not None:
        raise refusal


def told_in(session: Session) -> Told:
    """Return the facts that the program of ``session`` has read."""
    found: Told | None = session.host_facts
    if found is None:
        with session.lock:  # another thread can be first
            found = session.host_facts = session.host_facts or Told()
    return found


def tell(
    session: Session,
    kept: dict[str, Pair],
    name: str,
    now: Any,
    *,
    at_once: bool = False,
    fresh: bool = False,
) -> Any:
    """Return the value of ``name`` for the program. ``now`` is the current value.

    The pair is stored in ``kept``. The value is recorded once per lane, and again after a change.
    With ``at_once`` it is written before the program continues. ``fresh`` ignores the recorded
    value.
    """
    lane = session.lanes.current()
    here = lane.told
    if here is None:
        here = lane.told = {}
    pair = here.get(name)
    if pair is not None and pair[0] == now:
        return pair[1]

    draws = session.draws
    if type(draws) is RecordedDraws:  # without a recording to read, the current value counts
        draws.note_aside(lane, f"env {name}", now)
        here[name] = kept[name] = (now, now)
        if at_once:
            draws.end(lane)
        return now

    def live() -> Any:
        before = kept.get(name)
        return before[1] if before is not None and before[0] == now else now

    then = draws.draw_aside(f"env {name}", live, fresh=fresh)
    here[name] = kept[name] = (now, then)
    if at_once and session.writes:
        draws.end(lane)
    return then


def as_written(text: str) -> str | bytes:
    """Return a text of the system in a form that can be recorded: bytes if it is not valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return os.fsencode(text)
    return text


_frame = sys._getframe

Make = Callable[[Any], Any]
"""Factory that wraps an original function."""

Module = dict[str, Any]
"""Globals of the calling code."""

Args = tuple[Any, ...]
Named = dict[str, Any]

_RAISED: Final = "raised"
_ERRORS: Final[Mapping[str, type[Exception]]] = {
    "KeyError": KeyError,
    "OSError": OSError,
    "ValueError": ValueError,
}


class Form(msgspec.Struct, frozen=True):
    """Conversion of a function's results to JSON and back."""

    dump: Callable[[Any], Any] = lambda value: value
    load: Callable[[Any], Any] = lambda value: value


PLAIN: Final = Form()
TUPLE: Final = Form(list, tuple)


def fact(name: str, form: Form = PLAIN, *, lasting: bool = True) -> Make:
    """Wrap the function ``name`` so that its result is drawn.

    ``lasting`` means that the result does not change while the program runs.
    """

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
    """Return a replacement of ``original`` that calls ``told`` for callers of the tiers ``to``.

    ``told`` gets the globals of the caller. With ``asks``, a policy can refuse the call.

    The standard library keeps some of these functions for its finalizers, which run after the
    globals of this module were deleted.
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
    """Return the result of ``live``, or the recorded one. Raises the error that ``live`` raised."""
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
    """Return the key of a call, or None if its arguments cannot be part of a key."""
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


def _struct(kind: Any) -> Form:
    """Return the form of a named tuple whose constructor takes one sequence."""
    return Form(list, kind)


def _os(module: ModuleType) -> Mapping[str, Make]:
    numbers = ("getuid", "geteuid", "getgid", "getegid", "cpu_count", "process_cpu_count")
    return {
        **{name: fact(f"os.{name}") for name in (*numbers, "getlogin")},
        "getloadavg": fact("os.getloadavg", TUPLE, lasting=False),
        "getgroups": fact("os.getgroups"),
        "uname": fact("os.uname", _struct(module.uname_result)),
        "get_terminal_size": fact(
            "os.get_terminal_size", _struct(module.terminal_size), lasting=False
        ),
    }


def _socket(module: ModuleType) -> Mapping[str, Make]:
    return {name: fact(f"socket.{name}") for name in ("gethostname", "getfqdn")}


_PLATFORM: Final = """
    machine node platform processor python_branch python_compiler python_implementation
    python_revision python_version release system version
""".split()
_PLATFORM_TUPLES: Final = "architecture libc_ver python_build python_version_tuple".split()


def _platform(module: ModuleType) -> Mapping[str, Make]:
    def load(values: list[str]) -> Any:
        *five, processor = values
        made = module.uname_result(*five)
        vars(made)["processor"] = processor  # which is otherwise determined on first access
        return made

    return {
        **{name: fact(f"platform.{name}") for name in _PLATFORM},
        **{name: fact(f"platform.{name}", TUPLE) for name in _PLATFORM_TUPLES},
        "uname": fact("platform.uname", Form(list, load)),
        "freedesktop_os_release": fact("platform.freedesktop_os_release", Form(dict, dict)),
    }


def _getpass(module: ModuleType) -> Mapping[str, Make]:
    return {"getuser": fact("getpass.getuser")}


def _pwd(module: ModuleType) -> Mapping[str, Make]:
    form = _struct(module.struct_passwd)
    return {name: fact(f"pwd.{name}", form) for name in ("getpwuid", "getpwnam")}


def _locale(module: ModuleType) -> Mapping[str, Make]:
    plain = ("getpreferredencoding", "getencoding")
    return {
        "getlocale": fact("locale.getlocale", TUPLE, lasting=False),
        **{name: fact(f"locale.{name}", lasting=False) for name in plain},
    }


def _shutil(module: ModuleType) -> Mapping[str, Make]:
    form = _struct(os.terminal_size)
    return {"get_terminal_size": fact("shutil.get_terminal_size", form, lasting=False)}


def _multiprocessing(module: ModuleType) -> Mapping[str, Make]:
    return {"cpu_count": fact("multiprocessing.cpu_count")}


SEAMS: Final = {
    "getpass": _getpass,
    "locale": _locale,
    "multiprocessing": _multiprocessing,
    "os": _os,
    "platform": _platform,
    "pwd": _pwd,
    "shutil": _shutil,
    "socket": _socket,
}
"""The functions of each module that tell something about the machine."""


def fact_patches(module: ModuleType) -> list[Installable]:
    """Return the patches of one of these modules."""
    return [Rebinding(module, SEAMS[module.__name__](module))]
