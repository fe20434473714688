"""Command lines of wrapped programs: their kind, launchers, Python arguments and encoding."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from reenact.errors import UsageError

__all__ = [
    "LAUNCHERS",
    "Kind",
    "arguments_of",
    "check_command",
    "decode_argv",
    "encode_argv",
    "inject_through_env",
    "kind_of",
    "launched_command",
    "printable_argument",
]

Kind = Literal["python", "launcher", "other"]

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*(?:w|d|t)?(?:\.exe)?")
_UNSUPPORTED = {
    "I": "ignores the environment and the user's folders",
    "E": "ignores the environment",
    "S": "does not load site",
}


def kind_of(argv: Sequence[str]) -> Kind:
    """Return the kind of a command.

    ``python`` is an interpreter, or a script whose first line names one. ``launcher`` is a program
    in :data:`LAUNCHERS`. Raises :class:`UsageError` for a missing program.
    """
    if _options(argv) is not None:
        return "python"
    name = os.path.basename(argv[0])
    return "launcher" if name.removesuffix(".exe") in LAUNCHERS else "other"


def _options(argv: Sequence[str]) -> list[str] | None:
    """Return the arguments of a Python interpreter, including its program; None for any other
    program."""
    if _is_python(argv[0]):
        return list(argv[1:])
    words = _first_line(_found(argv[0]))
    while words and os.path.basename(words[0]) in ("env", "exec", "-S"):
        del words[0]
    return words[1:] if words and _is_python(words[0]) else None


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(os.path.basename(word)) is not None


def _found(word: str) -> Path:
    path = shutil.which(word)
    if path is None:
        raise UsageError(
            f"program {word!r} not found", hint="check the name and PATH: reenact run -- CMD …"
        )
    return Path(path)


def _first_line(path: Path) -> list[str]:
    """Return the words of a script's ``#!`` line; empty for other files."""
    with open(path, "rb") as file:
        first = file.readline(512)
        if first.rstrip() == b"#!/bin/sh":
            # pip uses this form for interpreter paths that are long or contain spaces. The next
            # line starts the interpreter.
            first = b"#!" + file.readline(512)
    if not first.startswith(b"#!"):
        return []
    import shlex  # few programs are scripts

    try:
        return shlex.split(first[2:].decode("utf-8", "replace"))
    except ValueError:  # an unclosed quote
        return []


def check_command(argv: Sequence[str], *, replays: bool, isolated: bool) -> None:
    """Raise :class:`UsageError` for a command in which Reenact cannot run.

    This is a missing program, an interpreter with options such as ``-I``, or a replay of a program
    that does not run Python and is not ``isolated``.
    """
    _found(argv[0])
    inside = launched_command(argv)
    if inside and not _is_python(inside[0]) and shutil.which(inside[0]) is None:
        inside = []  # a launcher may find a program that is not on this PATH
    options = _options(inside) if inside else None
    if options is not None:
        _check_options(options)
    elif replays and not isolated and (not inside or kind_of(inside) == "other"):
        raise UsageError(
            f"{(inside or argv)[0]} is not a Python program: nothing would keep it from the network",
            hint="name the Python program itself, or add --isolate, which covers any program",
        )


def _check_options(options: Sequence[str]) -> None:
    for letter in _letters(options):
        if letter in _UNSUPPORTED:
            raise UsageError(
                f"python -{letter} {_UNSUPPORTED[letter]}, so Reenact cannot be in this program",
                hint=f"leave -{letter} out",
            )


def _letters(options: Sequence[str]) -> Iterator[str]:
    """Yield the one-letter options of an interpreter that precede its program."""
    words = iter(options)
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            return
        if word.startswith("--"):  # skip --check-hash-based-pycs and its value
            next(words, None)
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "cm":
                return
            if letter in "WX":
                if at == len(word):
                    next(words, None)
                break
            yield letter


def arguments_of(argv: Sequence[str]) -> list[str] | None:
    """Return the arguments of a Python program, without the interpreter and the program itself.

    Returns None if they cannot be determined.
    """
    if not argv:
        return None
    if not _is_python(argv[0]):
        return list(argv[1:]) if _is_script(argv) else None
    words = list(argv[1:])
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            return words  # the program
        last = _last_option(word)
        if last in ("c", "m"):
            return words[0 if word[-1] != last else 1 :]
        if (last in ("W", "X") and word[-1] == last) or word == "--check-hash-based-pycs":
            del words[:1]
    return None


def _last_option(word: str) -> str:
    """Return the first option letter in ``word`` that takes a value; empty if there is none."""
    return next((letter for letter in word[1:] if letter in "cmWX"), "") if word[1] != "-" else ""


def _is_script(argv: Sequence[str]) -> bool:
    try:
        return kind_of(argv) == "python"
    except UsageError:  # recorded on a machine that has this program
        return False


_PLAIN = frozenset("env nice ionice nohup time timeout setsid stdbuf taskset chrt xvfb-run".split())
"""Launchers whose arguments contain the command to start, after the options."""

LAUNCHERS = _PLAIN | frozenset(
    "uv poetry pdm hatch pipenv pipx rye pixi conda mamba micromamba tox nox coverage".split()
)

_CLEARS = ("-", "-i", "--ignore-environment")
_UNSETS = ("-u", "--unset")
_WITH_A_WORD = ("-C", "--chdir", "-a", "--argv0")
_ALONE = ("-v", "--debug", "-0", "--null")
_PYTHONPATH = "PYTHONPATH"


def name_of(argv: Sequence[str]) -> str:
    """Return the name of the program of a command."""
    return os.path.basename(argv[0]).removesuffix(".exe") if argv else ""


def launched_command(argv: Sequence[str]) -> list[str]:
    """Return the command that ``argv`` starts through launchers such as ``env`` and ``nice``.

    Without a launcher this is ``argv``. The result is empty if the command cannot be determined.
    """
    words = list(argv)
    while name_of(words) in _PLAIN:
        words = words[_next(words) :]
    return words


def _next(words: Sequence[str]) -> int:
    """Return the index of the command that the launcher ``words[0]`` starts.

    Without a command, this is the length of ``words``.
    """
    if name_of(words) == "env":
        seen = _Env.read(words[1:])
        return len(words) if seen is None else 1 + seen.end
    return next((at for at, word in enumerate(words) if at and _is_program(word)), len(words))


def _is_program(word: str) -> bool:
    return not word.startswith("-") and shutil.which(word) is not None


def inject_through_env(
    argv: Sequence[str], path: str, inject: Callable[[dict[str, str]], dict[str, str]]
) -> list[str]:
    """Add the variables of ``inject`` to the assignments of ``env``, if ``argv`` runs ``env``.

    ``env`` can remove these variables from the environment. ``path`` is the ``PYTHONPATH`` that
    ``env`` inherits. ``inject`` gets and returns variables.
    """
    words, at = list(argv), 0
    while name_of(words[at:]) in _PLAIN - {"env"}:
        at += _next(words[at:])
    seen = _Env.read(words[at + 1 :]) if name_of(words[at:]) == "env" else None
    if seen is None:
        return words
    found = seen.set.get(_PYTHONPATH, "" if seen.clears(_PYTHONPATH) else path)
    assignments = [f"{name}={value}" for name, value in inject({_PYTHONPATH: found}).items()]
    end = at + 1 + seen.end
    return [*words[:end], *assignments, *words[end:]]


class _Env:
    """Parsed arguments of ``env``. ``end`` is the index of the command in these arguments."""

    def __init__(self) -> None:
        self.end = 0
        self.set: dict[str, str] = {}
        self._unset: set[str] = set()
        self._all = False

    def clears(self, name: str) -> bool:
        return self._all or name in self._unset

    @classmethod
    def read(cls, words: Sequence[str]) -> _Env | None:
        """Parse the arguments of ``env``; return None for an unknown option."""
        parsed = cls()
        rest = list(words)
        while rest and rest[0].startswith("-"):
            if not parsed._take(rest):
                return None
        while rest and "=" in rest[0][1:]:
            name, _, value = rest.pop(0).partition("=")
            parsed.set[name] = value
        parsed.end = len(words) - len(rest)
        return parsed

    def _take(self, rest: list[str]) -> bool:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word in _CLEARS:
            self._all = True
        elif name in _UNSETS and (equals or rest):
            self._unset.add(value if equals else rest.pop(0))
        elif name in _WITH_A_WORD and (equals or rest):
            del rest[: 0 if equals else 1]
        elif word.startswith("-u"):
            self._unset.add(word[2:])
        else:
            return word in _ALONE
        return True


def encode_argv(words: Iterable[str]) -> list[str | bytes]:
    """Encode a command line for an event. Words that are not valid UTF-8 become bytes."""
    return [_dumped(os.fsencode(word)) for word in words]


def _dumped(word: bytes) -> str | bytes:
    try:
        return word.decode()
    except UnicodeDecodeError:
        return word


def decode_argv(value: Any) -> list[str]:
    """Decode a command line encoded by :func:`encode_argv`; return an empty list for any other
    value."""
    if not isinstance(value, list) or not all(isinstance(word, str | bytes) for word in value):
        return []
    return [os.fsdecode(word.encode() if isinstance(word, str) else word) for word in value]


def printable_argument(word: str) -> str:
    r"""Return ``word`` as valid text for messages and JSON. Invalid bytes become ``\xff``."""
    return os.fsencode(word).decode("utf-8", "backslashreplace")
