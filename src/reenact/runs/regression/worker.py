"""A process that re-enacts recordings in one function of the program, one after the other.

Started by :class:`reenact.runs.regression.targets.Targets`: reads a path per line, writes an outcome
per line. What the function prints goes nowhere: the outcomes have a pipe of their own.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from reenact.engine.divergence import Divergence
from reenact.engine.rendering import render
from reenact.errors import DivergenceError, RecordingError, ReenactError, UsageError
from reenact.format.canonical import digest
from reenact.runs.regression.commands import read_marks
from reenact.runs.regression.outcome import Outcome, cause_of
from reenact.scope import session

__all__ = ["load_target", "main", "perform"]

Target = Callable[..., Any]

_NOTHING = object()


def load_target(text: str) -> Target:
    """The function that ``module:function`` names. Raises :class:`UsageError`."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise UsageError(f"{text!r} names no function", hint="--target package.module:function")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # noqa: BLE001 - a module may raise anything
        raise UsageError(
            f"{text} cannot be loaded: {type(error).__name__}: {error}",
            hint=f"python -c 'import {module}' shows where",
        ) from None
    if not callable(found):
        raise UsageError(f"{text} is no function", hint="name one that takes the recorded input")
    target: Target = found
    return target


def perform(target: Target, recording: Path, policy: str | None = None) -> Outcome:
    """Call ``target`` with the input of the recorded run, in a strict replay of it; where the
    recording says what came out, the same has to come out."""
    name = str(recording)
    try:
        begun, ended = read_marks(recording)
        tape = recording.is_file()
        place: dict[str, Any] = {"tape" if tape else "capture": recording}
        with session(**place, mode="replay", strict=True, policy=policy) as opened:
            output = _called(target, begun.get("input", _NOTHING))
        served = opened.report().served
    except DivergenceError as error:
        return _diverged(name, error)
    except RecordingError as error:
        detail = f"{error.message}\n{error.hint}".rstrip()
        cause = type(error).__name__
        return Outcome(recording=name, status="unreadable", cause=cause, detail=detail)
    except Exception as error:  # noqa: BLE001 - whatever the program raises is what is reported
        return _raised(name, error)
    if "output" in ended and not _is_same(ended["output"], output):
        detail = f"recorded {ended['output']!r:.500}\nreturned {output!r:.500}"
        return Outcome(
            recording=name, status="failed", served=served, cause="another output", detail=detail
        )
    return Outcome(recording=name, status="ok", served=served)


def _called(target: Target, given: Any) -> Any:
    takes = inspect.signature(target).parameters
    arguments = [] if given is _NOTHING or not takes else [given]
    result = target(*arguments)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _is_same(recorded: Any, returned: Any) -> bool:
    try:
        return digest(recorded) == digest(returned)
    except ReenactError:
        return False


def _diverged(name: str, error: DivergenceError) -> Outcome:
    found = error.divergence
    if not isinstance(found, Divergence):
        return Outcome(recording=name, status="diverged", cause="diverged", detail=str(error))
    return Outcome(
        recording=name,
        status="diverged",
        cause=cause_of(found),
        detail=render(found),
        divergence=found.to_json(),
    )


def _raised(name: str, error: Exception) -> Outcome:
    import traceback

    detail = "".join(traceback.format_exception(error))[-2_000:]
    cause = f"{type(error).__name__}: {error}"[:200]
    return Outcome(recording=name, status="failed", cause=cause, detail=detail)


def main(words: list[str]) -> int:
    """``worker TARGET FD [POLICY]``: jobs come on standard input. The first line that is written says
    why there can be no outcomes, or nothing."""
    outcomes = os.fdopen(int(words[1]), "wb", buffering=0)
    try:
        target = load_target(words[0])
    except UsageError as error:
        outcomes.write(msgspec.json.encode({"message": error.message, "hint": error.hint}) + b"\n")
        return 2
    outcomes.write(b"{}\n")
    policy = words[2] if len(words) > 2 else None
    jobs = os.fdopen(os.dup(0), "r", encoding="utf-8", errors="surrogateescape")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    for line in jobs:
        outcome = perform(target, Path(line.rstrip("\n")), policy)
        outcomes.write(msgspec.json.encode(outcome) + b"\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
