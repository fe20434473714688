"""Codecs between the results and exceptions of a program and the data in a recording.

Each boundary has a codec for its results. Streamed responses are stored in chunks, or as one
value if the program received them all at once. Also compares the result of a repeated call with
the recorded one.

A failed call replays as the same type of exception. The class is looked up among the loaded
modules only. Nothing is imported and no code of the class runs to create the exception, because a
recording is not trusted.
"""

from __future__ import annotations

import builtins
import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, Protocol

import msgspec

from reenact._system import monotonic
from reenact.engine.call import PAIRS, Call
from reenact.engine.session.context import current
from reenact.errors import PolicyRefused, ReenactError, ValueRefused
from reenact.format.canonical import decode, exact, plain
from reenact.format.content_hash import without_volatile
from reenact.format.event import Data
from reenact.format.json_path import lookup, parse
from reenact.policy.matching import Comparer
from reenact.policy.redaction.redactor import Screen
from reenact.policy.redaction.structure import payload

__all__ = [
    "PLAIN_CODEC",
    "PLAIN_STREAM_CODEC",
    "BufferedResponse",
    "BufferedResponseCodec",
    "PartialResponse",
    "PlainCodec",
    "PlainStreamCodec",
    "RecordedFailure",
    "ResultCodec",
    "StreamCodec",
    "copy_value",
    "dump_exception",
    "has_path",
    "load_exception",
    "result_field",
    "same_result",
]

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
"""Attributes of built-in exceptions outside of their ``__dict__``."""


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


def dump_exception(error: BaseException, above: tuple[BaseException, ...] = ()) -> Data:
    """Return the record of ``error``: class, text, arguments, attributes, members and causes.

    Arguments and attributes must be JSON values. ``above`` are the exceptions that contain this one
    or that it caused.
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
            data["members"] = [dump_exception(one, below) for one in error.exceptions]
    data |= _arguments_data(error, arguments, below)
    state = _state(error)
    if state:
        data["state"] = state
    cause = error.__cause__
    if cause is not None and len(below) < _DEEPEST and all(cause is not one for one in below):
        data["cause"] = dump_exception(cause, below)
    return data


def _arguments_data(
    error: BaseException, arguments: list[Any], below: tuple[BaseException, ...]
) -> Data:
    """Return the arguments, with exceptions separated; nothing if one is not a JSON value.

    A cause among the arguments is not repeated.
    """
    raised: dict[str, Any] = {}
    for number, one in enumerate(arguments):
        if one is error.__cause__ is not None:
            raised[str(number)] = _CAUSE
        elif isinstance(one, BaseException) and len(below) < _DEEPEST and one not in below:
            raised[str(number)] = dump_exception(one, below)
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
    """Return the attributes of ``error``, including its notes."""
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


def load_exception(data: Any) -> BaseException:
    """Return the exception that ``data`` describes, with the recorded ``str()``."""
    if not isinstance(data, dict):
        return RecordedFailure("an unknown failure", str(data)[:_LONGEST])
    name, message = str(data.get("class", "")), str(data.get("message", ""))
    cause = load_exception(data["cause"]) if isinstance(data.get("cause"), dict) else None
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
    """Return ``data`` with the exceptions among its arguments put back."""
    raised, given = data.get("raised"), data.get("args")
    if not isinstance(raised, dict) or not isinstance(given, list):
        return data
    arguments = [
        _argument(raised[str(number)], cause) if str(number) in raised else one
        for number, one in enumerate(given)
    ]
    return {**data, "args": arguments}


def _argument(recorded: Any, cause: BaseException | None) -> BaseException | None:
    return cause if recorded == _CAUSE else load_exception(recorded)


def _made(kind: type[BaseException] | None, data: Data, message: str) -> BaseException | None:
    """Return an instance, created by the built-in base class of ``kind``.

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
            native.__init__(error, *arguments)  # type: ignore[misc]  # of the built-in class
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
        return (*arguments[:1], [load_exception(one) for one in given])
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
    """Restore attributes of the exception, such as a status code that programs check."""
    for name, value in state.items() if isinstance(state, dict) else ():
        if not hasattr(error, name):
            error.__dict__[name] = value


def _say(error: BaseException, message: str) -> None:
    """Restore the recorded text, for classes that compute it from other data."""
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
    """Return whether ``repr(error)`` works, which tracebacks, debuggers and asyncio rely on."""
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
    """Resolve the longest prefix that is a loaded module, then attribute by attribute."""
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:cut]))
        if module is not None:
            found: Any = module
            for part in parts[cut:]:
                found = vars(found).get(part) if hasattr(found, "__dict__") else None
            return found
    return None


def copy_value(value: Any) -> Any:
    """Return a copy of ``value`` that its owner cannot change. Raises :class:`ValueRefused`."""
    try:
        return plain(decode(exact(value)))
    except ValueRefused as error:  # the path names keys, and a key can be anything
        session = current()
        told = error.path if session is None else session.redacted_text(error.path)
        raise ValueRefused(error.reason, told, hint=error.hint) from None


class ResultCodec(Protocol):
    """One per boundary. Data are fields of the event that completes the call."""

    def dump(self, call: Call, result: Any) -> Data:
        """Return the record of ``result``. Raises :class:`ValueRefused` if it cannot be recorded."""

    def load(self, call: Call, data: Data) -> Any:
        """Return the result that was recorded as ``data``."""

    def returned(self, call: Call, result: Any, data: Data) -> Any:
        """Return the value for the program while recording: ``result``, or its recorded form."""

    def dump_error(self, call: Call, error: BaseException) -> Data:
        """Return the record of a failure."""

    def load_error(self, call: Call, data: Any) -> BaseException:
        """The exception that ``data`` was recorded of."""


class PlainCodec:
    """Results that are JSON values (and bytes) themselves, passed by value.

    While recording the program gets the value that a replay will give it: where a tool returns a
    tuple, a list.
    """

    def dump(self, call: Call, result: Any) -> Data:
        result = copy_value(result)
        if call.type == "tool_call":
            return {"ok": True, "result": result}
        if call.type == "llm_request":
            return {"stopReason": None, "usage": None, "response": result}
        return {"response": result}

    def load(self, call: Call, data: Data) -> Any:
        if call.type == "tool_call":
            return data.get("result")
        return data["response"] if "response" in data else data.get("value")

    def returned(self, call: Call, result: Any, data: Data) -> Any:
        return self.load(call, data)

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return dump_exception(error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return load_exception(data)


PLAIN_CODEC = PlainCodec()


class PartialResponse(Protocol):
    """The response of one stream, while it is coming."""

    def add(self, piece: Any) -> Any:
        """Return the part of the response that ``piece`` adds and that can be written by now.

        It is an object whose fields are appended to the previous ones (lists, texts and bytes).
        """


class StreamCodec(Protocol):
    """One per boundary whose answers come piece by piece. ``response`` is the field of that name
    in the event that completes the call."""

    timed: bool
    """Is it recorded when each piece came?"""

    def admit(self, piece: Any) -> Any:
        """Return ``piece`` by value. Raises :class:`ValueRefused` if it cannot be recorded."""

    def size(self, piece: Any) -> int:
        """Return the number of bytes that the piece adds to the response."""

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        """Return the recorded form of ``pieces`` and of a generator's return value ``returned``."""

    def load(self, response: Any) -> list[Any]:
        """Return the pieces that were recorded as ``response``."""

    def growth(self, screen: Screen) -> PartialResponse:
        """Return the encoder of one stream. ``screen`` checks every text that spans chunks."""

    def dump_error(self, call: Call, error: BaseException) -> Data:
        """Return the record of a failure."""

    def load_error(self, call: Call, data: Any) -> BaseException:
        """The exception that ``data`` was recorded of."""


class BufferedResponse(msgspec.Struct):
    """All of an answer, and what broke it off.

    A live asynchronous iterator may yield one instead of pieces, when there is nothing left to wait
    for: then the answer is a single delivery.
    """

    pieces: list[Any] = msgspec.field(default_factory=list)
    error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        return self.since(0)

    def since(self, number: int) -> Iterator[Any]:
        """Yield the pieces starting with ``number``, then raise what broke off the response."""
        pieces = iter(self.pieces[number:])
        return pieces if self.error is None else chain(pieces, _raising(self.error))


def _raising(error: BaseException) -> Iterator[Any]:
    yield from ()
    raise error


class PlainStreamCodec:
    """Pieces that are JSON values (and bytes) themselves, passed by value."""

    timed = False

    def admit(self, piece: Any) -> Any:
        return copy_value(piece)

    def size(self, piece: Any) -> int:
        return len(exact(piece))

    def dump(self, pieces: list[Any], returned: Any) -> Any:
        response = {"chunks": pieces}
        if returned is not None:
            response["returned"] = copy_value(returned)
        return response

    def load(self, response: Any) -> list[Any]:
        chunks = response.get("chunks") if isinstance(response, dict) else None
        return chunks if isinstance(chunks, list) else []

    def growth(self, screen: Screen) -> PartialResponse:
        return _GrowingPieces(screen)

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return dump_exception(error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return load_exception(data)


class _GrowingPieces:
    """A piece is written when nothing in it, nor in one before it, can be a part of a secret."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._size = 0
        self._held: deque[tuple[int, Any]] = deque()

    def add(self, piece: Any) -> Any:
        text = payload(piece)
        self._size += len(text)
        self._held.append((self._size, piece))
        safe = self._screen.add(text)
        ready = []
        while self._held and self._held[0][0] <= safe:
            ready.append(self._held.popleft()[1])
        return {"chunks": ready}


PLAIN_STREAM_CODEC = PlainStreamCodec()


def error_fields(call: Call, error: Data) -> Data:
    """Return the fields of a completing event that mark the call as failed."""
    if call.type == "tool_call":
        return {"ok": False, "error": error}
    if call.type == "llm_request":
        return {"stopReason": None, "usage": None, "error": error}
    return {"error": error}


def result_field(call: Call) -> str:
    """Return the field of the completing event that holds the result of a stream."""
    return "result" if call.type == "tool_call" else "response"


def completing_type(call: Call) -> str:
    """Return the type of the event that completes ``call``."""
    return PAIRS.get(call.type, call.type)


class BufferedResponseCodec:
    """Codec of a response that is stored as one value.

    ``broken`` holds the error that broke it off. Created when the call begins, to measure its
    duration.
    """

    def __init__(self, codec: StreamCodec) -> None:
        self._codec = codec
        self._began = monotonic()

    def dump(self, call: Call, result: BufferedResponse) -> Data:
        pieces = [self._codec.admit(piece) for piece in result.pieces]
        data: Data = {"response": self._codec.dump(pieces, None)}
        if result.error is not None:
            data["broken"] = self._codec.dump_error(call, result.error)
        if self._codec.timed:
            data["timing"] = {"offsets": [int((monotonic() - self._began) * 1e3)]}
        return data

    def load(self, call: Call, data: Data) -> BufferedResponse:
        broken = data.get("broken")
        error = None if broken is None else self._codec.load_error(call, broken)
        return BufferedResponse(self._codec.load(data.get("response")), error)

    def returned(self, call: Call, result: BufferedResponse, data: Data) -> BufferedResponse:
        return result

    def dump_error(self, call: Call, error: BaseException) -> Data:
        return self._codec.dump_error(call, error)

    def load_error(self, call: Call, data: Any) -> BaseException:
        return self._codec.load_error(call, data)


def same_result(comparer: Comparer, call: Call, fields: Data, recorded: Data) -> bool:
    """Return whether ``fields`` of a completing event equal ``recorded``.

    Volatile paths of ``call`` are ignored.
    """
    then = {name: recorded.get(name) for name in fields}
    if call.volatile:
        fields, then = (
            without_volatile(fields, call.volatile),
            without_volatile(then, call.volatile),
        )
    return comparer.key(fields) == comparer.key(then)


def has_path(data: Data, path: str) -> bool:
    """Return whether ``data`` has a value at ``path``."""
    try:
        return lookup(data, parse(path)) is not None
    except LookupError:
        return False
