"""Exceptions as data, and back: a failed call replays as the same type of exception.

A class is looked up among the modules that are loaded; nothing is imported, and no code of the
class is called to make the exception, because a recording is not trusted.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any, Final

from reenact.errors import PolicyRefused, ReenactError, ValueRefused
from reenact.format.canonical import exact
from reenact.format.event import Data

__all__ = ["RecordedFailure", "failure_data", "rebuild"]

_DEEPEST = 8
_LONGEST = 65_536
"""Characters of a text, bytes of an attribute: what is longer is cut, or left out."""

_NATIVE: Final[dict[type[BaseException], tuple[str, ...]]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("msg", "name", "path"),
    SyntaxError: ("msg", "filename", "lineno", "offset", "text", "end_lineno", "end_offset"),
    StopIteration: ("value",),
    SystemExit: ("code",),
    NameError: ("name",),
    AttributeError: ("name",),
}
"""What built-in exceptions keep outside of their ``__dict__``."""


_CAUSE: Final = "cause"
"""Of an argument: it is the exception that was the cause."""

_KINDS: Final = {
    "policy.denied": "denied",
    "policy.budget": "budget",
    "policy.refused": "refused",
}


class RecordedFailure(ReenactError):
    """Stands for a recorded exception whose class is not to be found in this process."""

    code = "recorded.failure"

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(
            f"{error_class}: {message}" if message else error_class,
            hint=f"the recorded call failed with {error_class}, which this program has not imported",
            error_class=error_class,
        )


# To data


def failure_data(error: BaseException, above: tuple[BaseException, ...] = ()) -> Data:
    """What is recorded of ``error``: class, text, arguments, attributes, members and causes.

    Of arguments and attributes those that JSON can hold. ``above`` are the exceptions that this
    one is a member or the cause of.
    """
    kind = type(error)
    data: Data = {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "message": _text(error),
        "kind": _KINDS[error.code] if isinstance(error, PolicyRefused) else "failed",
    }
    arguments = list(error.args)
    below = (*above, error)
    if isinstance(error, BaseExceptionGroup):
        arguments = [error.message]
        if len(below) < _DEEPEST:
            data["members"] = [failure_data(one, below) for one in error.exceptions]
    data |= _arguments_data(error, arguments, below)
    state = _state(error)
    if state:
        data["state"] = state
    cause = error.__cause__
    if cause is not None and len(below) < _DEEPEST and all(cause is not one for one in below):
        data["cause"] = failure_data(cause, below)
    return data


def _arguments_data(
    error: BaseException, arguments: list[Any], below: tuple[BaseException, ...]
) -> Data:
    """The arguments, with those that are exceptions apart; one that is also the cause is there
    already. Nothing where something else is among them."""
    raised: dict[str, Any] = {}
    for number, one in enumerate(arguments):
        if one is error.__cause__ is not None:
            raised[str(number)] = _CAUSE
        elif isinstance(one, BaseException) and len(below) < _DEEPEST and one not in below:
            raised[str(number)] = failure_data(one, below)
    rest = [None if str(number) in raised else one for number, one in enumerate(arguments)]
    if not _is_plain(rest):
        return {}
    return {"args": rest, "raised": raised} if raised else {"args": rest}


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_LONGEST].encode("utf-8", "replace").decode()
    except Exception:  # noqa: BLE001 - code of the program, which may fail in any way
        return ""


def _state(error: BaseException) -> Data:
    """The attributes of ``error``, notes included."""
    native = ((name, getattr(error, name)) for name in _native_names(error))
    found = {name: value for name, value in native if value is not None}
    found |= error.__dict__
    return {name: value for name, value in found.items() if _is_plain({name: value})}


def _native_names(error: BaseException) -> tuple[str, ...]:
    return next((names for kind, names in _NATIVE.items() if isinstance(error, kind)), ())


def _is_plain(value: Any) -> bool:
    try:
        return len(exact(value)) <= _LONGEST
    except ValueRefused:
        return False


# And back


def rebuild(data: Any) -> BaseException:
    """The exception that ``data`` describes; its ``str()`` is what it was."""
    if not isinstance(data, dict):
        return RecordedFailure("an unknown failure", str(data)[:_LONGEST])
    name, message = str(data.get("class", "")), str(data.get("message", ""))
    cause = rebuild(data["cause"]) if isinstance(data.get("cause"), dict) else None
    error = _made(_loaded_class(name), _with_raised(data, cause), message)
    if error is None:
        error = RecordedFailure(name or "an unknown failure", message)
        _lend(error, data.get("state"))
    else:
        _restore(error, data.get("state"))
        _say(error, message)
    if cause is not None:
        error.__cause__ = cause
    return error


def _with_raised(data: Data, cause: BaseException | None) -> Data:
    """``data`` with the exceptions among its arguments in their places."""
    raised, given = data.get("raised"), data.get("args")
    if not isinstance(raised, dict) or not isinstance(given, list):
        return data
    arguments = [
        _argument(raised[str(number)], cause) if str(number) in raised else one
        for number, one in enumerate(given)
    ]
    return {**data, "args": arguments}


def _argument(recorded: Any, cause: BaseException | None) -> BaseException | None:
    return cause if recorded == _CAUSE else rebuild(recorded)


def _made(kind: type[BaseException] | None, data: Data, message: str) -> BaseException | None:
    """An instance, made by the built-in class that ``kind`` comes from.

    The constructor of a user's class may want anything, and may do anything.
    """
    if kind is None:
        return None
    arguments = _arguments(kind, data, message)
    for native in kind.__mro__:
        if native.__module__ != "builtins":
            continue
        try:
            error: BaseException = native.__new__(kind, *arguments)
            native.__init__(error, *arguments)  # type: ignore[misc]  # that of the built-in class
        except (TypeError, ValueError):
            continue
        return error
    return None


def _arguments(kind: type[BaseException], data: Data, message: str) -> tuple[Any, ...]:
    given = data.get("args")
    arguments = tuple(given) if isinstance(given, list) else (message,)
    if issubclass(kind, BaseExceptionGroup):
        members = data.get("members")
        given = members if isinstance(members, list) else []
        return (*arguments[:1], [rebuild(one) for one in given])
    return arguments


def _restore(error: BaseException, state: Any) -> None:
    if not isinstance(state, dict):
        return
    native = _native_names(error)
    for name, value in state.items():
        if name not in native:
            error.__dict__[name] = value  # past the setters, which are code of the program
            continue
        try:
            BaseException.__setattr__(error, name, value)
        except (TypeError, ValueError, AttributeError):
            pass  # a forged value; the exception does without


def _lend(error: RecordedFailure, state: Any) -> None:
    """What the exception had besides its text: a status code, say, by which programs decide."""
    for name, value in state.items() if isinstance(state, dict) else ():
        if not hasattr(error, name):
            error.__dict__[name] = value


def _say(error: BaseException, message: str) -> None:
    """If the class words its text from what was not recorded, let it say what it said."""
    kind = type(error)
    words: dict[str, Any] = {}
    if _text(error) != message:
        words["__str__"] = lambda _: message
    if not _has_repr(error):
        words["__repr__"] = lambda _: f"{kind.__name__}({message!r})"
    if not words:
        return
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    try:
        error.__class__ = type(kind.__name__, (kind,), {**words, **names})
    except TypeError:
        pass  # a class that allows no other layout keeps its own words


def _has_repr(error: BaseException) -> bool:
    """A traceback, a debugger and asyncio itself ask for it, and none of them expects it to fail."""
    try:
        repr(error)
    except Exception:  # noqa: BLE001 - code of the program, which may fail in any way
        return False
    return True


def _loaded_class(name: str) -> type[BaseException] | None:
    module, _, rest = name.rpartition(".")
    found: Any = getattr(builtins, rest, None) if module == "builtins" else _in_modules(name)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _in_modules(name: str) -> Any:
    """The longest prefix that is a loaded module, then attribute by attribute."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            found: Any = module
            for part in parts[cut:]:
                found = vars(found).get(part) if hasattr(found, "__dict__") else None
            return found
    return None
