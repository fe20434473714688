"""Programs that do little but start the one that is named after them.

Some find it by themselves, in an environment of their own (``uv run``). Others start what is written
there; what that is can be seen beforehand. And one of them, ``env``, changes the variables by which
Reenact comes into a program: there they are set once more, behind what it does to them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence

__all__ = ["LAUNCHERS", "started", "through_env"]

_PLAIN = frozenset("env nice ionice nohup time timeout setsid stdbuf taskset chrt xvfb-run".split())
"""They start the program that is written behind their options."""

LAUNCHERS = _PLAIN | frozenset(
    "uv poetry pdm hatch pipenv pipx rye pixi conda mamba micromamba tox nox coverage".split()
)

_CLEARS = ("-", "-i", "--ignore-environment")
_UNSETS = ("-u", "--unset")
_WITH_A_WORD = ("-C", "--chdir", "-a", "--argv0")
_ALONE = ("-v", "--debug", "-0", "--null")
_PYTHONPATH = "PYTHONPATH"


def name_of(argv: Sequence[str]) -> str:
    """What a command is called."""
    return os.path.basename(argv[0]).removesuffix(".exe") if argv else ""


def started(argv: Sequence[str]) -> list[str]:
    """The command that ``argv`` comes to, behind launchers that start what is written there; empty
    where that cannot be seen."""
    words = list(argv)
    while name_of(words) in _PLAIN:
        words = words[_next(words) :]
    return words


def _next(words: Sequence[str]) -> int:
    """Where the command begins that the launcher ``words[0]`` starts; behind the end if nowhere."""
    if name_of(words) == "env":
        seen = _Env.read(words[1:])
        return len(words) if seen is None else 1 + seen.end
    return next((at for at, word in enumerate(words) if at and _is_program(word)), len(words))


def _is_program(word: str) -> bool:
    return not word.startswith("-") and shutil.which(word) is not None


def through_env(
    argv: Sequence[str], path: str, inject: Callable[[dict[str, str]], dict[str, str]]
) -> list[str]:
    """``argv`` with what ``inject`` puts into an environment, where it goes through ``env``, which
    may take it out. ``path`` is the ``PYTHONPATH`` that ``env`` finds."""
    words, at = list(argv), 0
    while name_of(words[at:]) in _PLAIN - {"env"}:
        at += _next(words[at:])
    seen = _Env.read(words[at + 1 :]) if name_of(words[at:]) == "env" else None
    if seen is None:
        return words
    found = seen.set.get(_PYTHONPATH, "" if seen.clears(_PYTHONPATH) else path)
    ours = [f"{name}={value}" for name, value in inject({_PYTHONPATH: found}).items()]
    end = at + 1 + seen.end
    return [*words[:end], *ours, *words[end:]]


class _Env:
    """What ``env`` does: ``end`` is where the command begins."""

    def __init__(self) -> None:
        self.end = 0
        self.set: dict[str, str] = {}
        self._unset: set[str] = set()
        self._all = False

    def clears(self, name: str) -> bool:
        return self._all or name in self._unset

    @classmethod
    def read(cls, words: Sequence[str]) -> _Env | None:
        """None where it is told something that is not known here."""
        made = cls()
        waiting = list(words)
        while waiting and waiting[0].startswith("-"):
            if not made._take(waiting):
                return None
        while waiting and "=" in waiting[0][1:]:
            name, _, value = waiting.pop(0).partition("=")
            made.set[name] = value
        made.end = len(words) - len(waiting)
        return made

    def _take(self, waiting: list[str]) -> bool:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if word in _CLEARS:
            self._all = True
        elif name in _UNSETS and (equals or waiting):
            self._unset.add(value if equals else waiting.pop(0))
        elif name in _WITH_A_WORD and (equals or waiting):
            del waiting[: 0 if equals else 1]
        elif word.startswith("-u"):
            self._unset.add(word[2:])
        else:
            return word in _ALONE
        return True
