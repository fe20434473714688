"""What kind of program a command line starts, and whether Reenact can be in it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from reenact.errors import UsageError
from reenact.runs.launchers import LAUNCHERS, started

__all__ = ["Kind", "arguments_of", "check_command", "kind_of"]

Kind = Literal["python", "launcher", "other"]

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*(?:w|d|t)?(?:\.exe)?")
_DEAF = {
    "I": "ignores the environment and the user's folders",
    "E": "ignores the environment",
    "S": "does not load site",
}


def kind_of(argv: Sequence[str]) -> Kind:
    """``python`` for an interpreter and for scripts that name one in their first line."""
    if _options(argv) is not None:
        return "python"
    name = os.path.basename(argv[0])
    return "launcher" if name.removesuffix(".exe") in LAUNCHERS else "other"


def _options(argv: Sequence[str]) -> list[str] | None:
    """What a Python interpreter is told, its program included; None for any other program."""
    if _is_python(argv[0]):
        return list(argv[1:])
    words = _first_line(_found(argv[0]))
    while words and os.path.basename(words[0]) in ("env", "exec", "-S"):
        del words[0]
    return words[1:] if words and _is_python(words[0]) else None


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(os.path.basename(word)) is not None


def _found(word: str) -> Path:
    place = shutil.which(word)
    if place is None:
        raise UsageError(
            f"there is no program {word!r}", hint="check the name and PATH: reenact run -- CMD …"
        )
    return Path(place)


def _first_line(place: Path) -> list[str]:
    """The words of a script's first line, which say what runs it."""
    with open(place, "rb") as file:
        first = file.readline(512)
        if first.rstrip() == b"#!/bin/sh":
            # How pip writes a path that is too long, or has blanks: the next line is for the shell.
            first = b"#!" + file.readline(512)
    if not first.startswith(b"#!"):
        return []
    try:
        return shlex.split(first[2:].decode("utf-8", "replace"))
    except ValueError:  # a quote that does not end
        return []


def check_command(argv: Sequence[str], *, replays: bool, isolated: bool) -> None:
    """Refuse what Reenact cannot be in. Raises :class:`UsageError`."""
    _found(argv[0])
    inside = started(argv)
    if inside and not _is_python(inside[0]) and shutil.which(inside[0]) is None:
        inside = []  # a launcher may know where it is
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
        if letter in _DEAF:
            raise UsageError(
                f"python -{letter} {_DEAF[letter]}, so Reenact cannot be in this program",
                hint=f"leave -{letter} out",
            )


def _letters(options: Sequence[str]) -> Iterator[str]:
    """The options of an interpreter that are one letter, up to its program."""
    words = iter(options)
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            return
        if word.startswith("--"):  # --check-hash-based-pycs, and its value
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
    """What a Python program is given, its own name left out; None where that cannot be seen."""
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
    """The first letter that takes the rest, or the next word, for itself."""
    return next((letter for letter in word[1:] if letter in "cmWX"), "") if word[1] != "-" else ""


def _is_script(argv: Sequence[str]) -> bool:
    try:
        return kind_of(argv) == "python"
    except UsageError:  # of another machine
        return False
