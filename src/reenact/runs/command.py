"""What kind of program a command line starts, and whether Reenact can be in it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from reenact.errors import UsageError

__all__ = ["Kind", "check_command", "kind_of"]

Kind = Literal["python", "launcher", "other"]

_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*(?:w|d|t)?(?:\.exe)?")
_LAUNCHERS = frozenset(
    "uv poetry pdm hatch pipenv pipx rye pixi conda mamba micromamba tox nox env nice ionice nohup "
    "time timeout setsid stdbuf taskset chrt xvfb-run coverage".split()
)
"""Programs that do little but start the one that is named after them."""

_DEAF = {
    "I": "ignores the environment and the user's folders",
    "E": "ignores the environment",
    "S": "does not load site",
}
_WITH_VALUE = "cmWX"


def kind_of(argv: Sequence[str]) -> Kind:
    """``python`` for an interpreter and for scripts that name one in their first line."""
    name = os.path.basename(argv[0])
    if _PYTHON.fullmatch(name) or _is_python_script(_found(argv[0])):
        return "python"
    return "launcher" if name.removesuffix(".exe") in _LAUNCHERS else "other"


def _found(word: str) -> Path:
    place = shutil.which(word)
    if place is None:
        raise UsageError(
            f"there is no program {word!r}", hint="check the name and PATH: reenact run -- CMD …"
        )
    return Path(place)


def _is_python_script(place: Path) -> bool:
    with open(place, "rb") as file:
        first = file.readline(512)
        if first.startswith(b"#!/bin/sh"):  # how pip writes a path that is too long, or has blanks
            first = file.readline(512)
    return (first.startswith(b"#!") or b"exec'" in first) and b"python" in first.lower()


def check_command(argv: Sequence[str], *, replays: bool, isolated: bool) -> None:
    """Refuse what Reenact cannot be in. Raises :class:`UsageError`."""
    kind = kind_of(argv)
    if kind == "python" and _PYTHON.fullmatch(os.path.basename(argv[0])):
        _check_flags(argv)
    if kind == "other" and replays and not isolated:
        raise UsageError(
            f"{argv[0]} is not a Python program: nothing would keep it from the network",
            hint="name the Python program itself, or add --isolate, which covers any program",
        )


def _check_flags(argv: Sequence[str]) -> None:
    for word in argv[1:]:
        if not re.fullmatch(r"-[A-Za-z?]+.*", word) or word.startswith("--"):
            return
        for letter in word[1:]:
            if letter in _DEAF:
                raise UsageError(
                    f"python -{letter} {_DEAF[letter]}, so Reenact cannot be in this program",
                    hint=f"leave -{letter} out",
                )
            if letter in _WITH_VALUE:
                return
