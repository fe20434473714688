"""Exceptions as data: each comes back as what it was, and nothing of a recording is trusted."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import types
from typing import Any

import pytest

from reenact.engine.codecs import RecordedFailure, dump_exception, load_exception
from reenact.errors import BudgetExceeded, CapabilityDenied, UsageError
from reenact.format.canonical import decode, exact, plain


class Odd(Exception):
    """Wants something that is not among its arguments."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status

    def __str__(self) -> str:
        return f"{self.args[0]} ({self.status})"


class Strict(Exception):
    def __new__(cls, first: int, second: int) -> Strict:
        return super().__new__(cls, first, second)

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class Opaque(Exception):
    """Words its text from an object that JSON cannot hold."""

    def __init__(self, response: object) -> None:
        self.response = response
        super().__init__()

    def __str__(self) -> str:
        return f"status {len(vars(self.response))}"


class Shy(Exception):
    """Cannot be shown without what JSON cannot hold."""

    def __init__(self, response: object) -> None:
        self.response = response
        super().__init__("shy")

    def __repr__(self) -> str:
        return f"Shy({self.response})"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class OwnOsError(OSError):
    def __init__(self, code: int, extra: str) -> None:
        super().__init__(code, "own text", "own file")
        self.extra = extra


class Group(ExceptionGroup[Exception]):
    def derive(self, excs: Any) -> Group:  # type: ignore[override]
        return Group(self.message, excs)


class _Outer:
    class Inner(ValueError):
        pass


class SideEffect(Exception):
    made = 0

    def __init__(self) -> None:
        SideEffect.made += 1
        super().__init__("made")


def _json_error() -> json.JSONDecodeError:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads('{"a": nope}')
    return caught.value


EXCEPTIONS = [
    ValueError("text", 3),
    ValueError(),
    KeyError("key"),
    FileNotFoundError(2, "No such file", "/some/file"),
    OSError(18, "cross-device", "a", None, "b"),
    OSError("only text"),
    ConnectionResetError(104, "reset by peer"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"),
    StopIteration(5),
    SystemExit(3),
    KeyboardInterrupt(),
    TimeoutError("late"),
    asyncio.CancelledError("why"),
    ImportError("no module", name="m", path="p"),
    SyntaxError("bad", ("file", 1, 2, "text")),
    AttributeError("gone", name="n"),
    socket.gaierror(-2, "unknown name"),
    subprocess.CalledProcessError(3, ["a", "b"], b"out", "err"),
    subprocess.TimeoutExpired("cmd", 5),
    _json_error(),
    Odd("text", status=404),
    Strict(1, 2),
    Opaque(types.SimpleNamespace(a=1, b=2)),
    OwnOsError(13, "more"),
    _Outer.Inner("nested class"),
    ExceptionGroup("several", [ValueError(1), ExceptionGroup("inner", [KeyError("k")])]),
    BaseExceptionGroup("all", [KeyboardInterrupt()]),
    Group("own group", [ValueError(1)]),
    UsageError("wrong", hint="do it right", place="here"),
    CapabilityDenied("no", hint="ask", capability="net.fetch"),
]


def _there_and_back(error: BaseException) -> BaseException:
    """Through what a recording holds."""
    return load_exception(plain(decode(exact(dump_exception(error)))))


@pytest.mark.parametrize("error", EXCEPTIONS, ids=lambda error: type(error).__qualname__)
def test_an_exception_comes_back_as_what_it_was(error: BaseException) -> None:
    back = _there_and_back(error)
    assert isinstance(back, type(error))
    assert type(back).__qualname__ == type(error).__qualname__
    assert str(back) == str(error)
    assert back is not error


@pytest.mark.parametrize(
    "error",
    [error for error in EXCEPTIONS if not isinstance(error, (Opaque, SyntaxError))],
    ids=lambda error: type(error).__qualname__,
)
def test_it_has_its_own_type_arguments_and_attributes(error: BaseException) -> None:
    back = _there_and_back(error)
    assert type(back) is type(error)
    if isinstance(error, BaseExceptionGroup):
        assert isinstance(back, BaseExceptionGroup)
        assert repr(back) == repr(error)
        return
    assert back.args == error.args
    assert vars(back) == vars(error)
    for name in ("errno", "strerror", "filename", "filename2", "name", "path", "code", "value"):
        if hasattr(error, name):
            assert getattr(back, name) == getattr(error, name)


def test_causes_and_notes_come_back() -> None:
    error = RuntimeError("outer")
    error.add_note("look here")
    error.__cause__ = KeyError("middle")
    error.__cause__.__cause__ = OSError(2, "inner", "file")
    back = _there_and_back(error)
    assert back.__notes__ == ["look here"]
    assert repr(back.__cause__) == "KeyError('middle')"
    assert back.__cause__ is not None
    assert str(back.__cause__.__cause__) == "[Errno 2] inner: 'file'"


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    back = _there_and_back(first)
    assert repr(back.__cause__) == "ValueError(2)"
    assert back.__cause__ is not None
    assert back.__cause__.__cause__ is None


def test_a_long_chain_is_cut() -> None:
    error = ValueError(0)
    for number in range(1, 50):
        outer = ValueError(number)
        outer.__cause__ = error
        error = outer
    back: BaseException | None = _there_and_back(error)
    length = 0
    while back is not None:
        back, length = back.__cause__, length + 1
    assert length == 8


def test_an_exception_that_cannot_word_itself_is_recorded_all_the_same() -> None:
    data = dump_exception(Mute("argument"))
    assert data["message"] == ""
    back = load_exception(data)
    assert (type(back), back.args) == (Mute, ("argument",))
    with pytest.raises(RuntimeError):  # as it did
        str(back)


def test_what_json_cannot_hold_is_left_out() -> None:
    error = ValueError(object())
    error.kept, error.lost = 1, object()  # type: ignore[attr-defined]
    data = dump_exception(error)
    exact(data)
    assert data["state"] == {"kept": 1}
    assert "args" not in data
    assert str(_there_and_back(error)) == str(error)


def test_half_a_character_and_a_very_long_text_can_be_recorded() -> None:
    data = dump_exception(ValueError("\ud800" + "x" * 1_000_000))
    assert len(exact(data)) < 100_000


def test_a_class_that_is_not_imported_is_named() -> None:
    back = load_exception({"class": "no.such.module.Error", "message": "text", "args": [1]})
    assert isinstance(back, RecordedFailure)
    assert str(back) == "no.such.module.Error: text"
    assert "no.such.module.Error" in back.hint


def test_nothing_is_imported_to_find_a_class() -> None:
    assert "smtpd" not in sys.modules
    assert isinstance(load_exception({"class": "smtpd.Error", "message": ""}), RecordedFailure)
    assert "smtpd" not in sys.modules


def test_no_code_of_the_class_is_called() -> None:
    name = f"{SideEffect.__module__}.SideEffect"
    back = load_exception({"class": name, "message": "made", "args": ["made"]})
    assert type(back) is SideEffect
    assert SideEffect.made == 0


FORGED: list[Any] = [
    None,
    "text",
    [],
    {},
    {"class": 3, "message": 4},
    {"class": "builtins.eval", "message": "1"},
    {"class": "builtins.int", "message": "1", "args": [1]},
    {"class": "os.system", "message": "", "args": ["true"]},
    {"class": "builtins.OSError", "message": "m", "args": {"a": 1}},
    {"class": "builtins.OSError", "message": "m", "args": [1, 2], "state": [1]},
    {"class": "builtins.OSError", "message": "m", "args": [1, 2], "state": {"errno": {}}},
    {"class": "builtins.UnicodeDecodeError", "message": "m", "args": [1, 2]},
    {"class": "builtins.UnicodeDecodeError", "message": "m", "args": ["u", b"", 0, 9, "r"]},
    {"class": "builtins.ExceptionGroup", "message": "m", "args": ["m"]},
    {"class": "builtins.ExceptionGroup", "message": "m", "args": [], "members": 3},
    {"class": "builtins.ValueError", "message": "m", "state": {"__class__": 1, "args": 2}},
    {"class": "builtins.SyntaxError", "message": "m", "args": ["m", [1]]},
    {"class": "", "message": "m"},
    {"class": "." * 500, "message": "m"},
    {"class": "builtins.ValueError", "message": "m", "cause": {"class": "x"}},
    {"class": "builtins.SystemExit", "message": "m", "args": [[]], "state": {"code": []}},
]


@pytest.mark.parametrize("forged", FORGED, ids=repr)
def test_whatever_is_written_there_becomes_an_exception(forged: Any) -> None:
    back = load_exception(forged)
    assert isinstance(back, BaseException)
    assert isinstance(str(back), str)


@pytest.mark.parametrize(
    "error,kind",
    [
        (ValueError(), "failed"),
        (CapabilityDenied("no"), "denied"),
        (BudgetExceeded("no"), "budget"),
        (UsageError("no"), "failed"),
    ],
)
def test_refusals_are_told_from_failures(error: Exception, kind: str) -> None:
    assert dump_exception(error)["kind"] == kind


def test_an_exception_that_cannot_show_itself_any_more_is_shown_by_its_text() -> None:
    back = load_exception(dump_exception(Shy(object())))
    assert isinstance(back, Shy)
    assert (str(back), repr(back)) == ("shy", "Shy('shy')")


def test_an_exception_among_the_arguments_comes_back() -> None:
    inner, other = ValueError("inner"), KeyError("k")
    error = RuntimeError(inner, 7, other)
    error.__cause__ = inner
    data = dump_exception(error)
    assert data["raised"]["0"] == "cause"
    again = load_exception(data)
    assert repr(again) == repr(error) == "RuntimeError(ValueError('inner'), 7, KeyError('k'))"
    assert again.args[0] is again.__cause__
    assert str(again) == str(error)


def test_an_exception_that_is_its_own_argument_is_recorded_without() -> None:
    error = RuntimeError("x")
    error.args = (error,)
    assert "args" not in dump_exception(error)


def test_a_forged_argument_is_a_recorded_failure() -> None:
    forged = {"class": "builtins.ValueError", "message": "m", "args": [None], "raised": {"0": 7}}
    assert "an unknown failure" in repr(load_exception(forged).args[0])
