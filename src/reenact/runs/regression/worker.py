"""Worker process that calls one function of the program for each recording.

:class:`reenact.runs.regression.jobs.FunctionPerformer` starts it. Each input line is a path,
followed by the input of the function as JSON if the recording does not contain it. Both are
hexadecimal digits. Each output line is an outcome, written to a separate pipe. Standard output of
the function is discarded. The end of its standard error explains why the process died.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from reenact.engine.divergence.model import Divergence
from reenact.engine.session.session import Session
from reenact.errors import RecordingError, ReenactError, SessionClosed, UsageError
from reenact.format.canonical import digest
from reenact.runs.regression.child_process import LAST_WORDS
from reenact.runs.regression.jobs import read_run_marks
from reenact.runs.regression.outcomes import Outcome, as_line, diverged, name_of, unreadable
from reenact.scope import keep_installed, session

__all__ = ["load_target", "main", "perform"]

Target = Callable[..., Any]

_NEEDED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def load_target(text: str) -> Target:
    """Return the function named ``module:function``. Raises :class:`UsageError`."""
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
        raise UsageError(
            f"{text} is not a function", hint="use a function that takes the recorded input"
        )
    target: Target = found
    return target


def perform(
    target: Target, recording: Path, policy: str | None = None, given: bytes | None = None
) -> Outcome:
    """Call ``target`` in a strict replay, with the recorded input.

    The JSON ``given`` is the input if none was recorded. The result must be equal to the recorded
    one, if there is one.
    """
    name = name_of(recording)
    location: dict[str, Any] = {"tape" if recording.is_file() else "capture": recording}
    try:
        begun, ended = read_run_marks(recording)
        if given is not None:
            begun = {"input": msgspec.json.decode(given), **begun}
        arguments = _arguments(target, begun)
        opened = session(**location, mode="replay", strict=True, policy=policy, warn=_say_nothing)
    except (RecordingError, UsageError) as error:
        return unreadable(recording, error)
    except Exception as error:  # noqa: BLE001 - see below
        return _raised(name, error)
    try:
        with opened:
            output = _called(target, arguments)
        report = opened.report()
    except RecordingError as error:
        return unreadable(recording, error)
    except BaseException as error:  # noqa: BLE001 - all errors of the program are reported
        # A divergence is found even if a client library has converted it to its own error.
        found = _found(opened)
        if found is None:
            return _raised(name, error)
        return diverged(recording, found, opened.report().served)
    served = report.served
    if "output" in ended and not _is_same(ended["output"], output):
        detail = f"recorded {ended['output']!r:.500}\nreturned {output!r:.500}"
        return Outcome(
            recording=name, status="failed", served=served, cause="another output", detail=detail
        )
    return Outcome(recording=name, status="ok", served=served)


def _found(opened: Session) -> Divergence | None:
    try:
        found = opened.divergences()
    except SessionClosed:  # the session could not be opened
        return None
    return found[0] if found else None


def _say_nothing(text: str) -> None:
    """Discard a warning."""


def _arguments(target: Target, begun: dict[str, Any]) -> list[Any]:
    takes = inspect.signature(target).parameters.values()
    if "input" in begun:
        return [begun["input"]] if takes else []
    if any(one.default is one.empty and one.kind in _NEEDED for one in takes):
        raise UsageError(
            "the recording has no input of its program: run_start has no field input",
            hint="use a function without required arguments, or a program: reenact regress … -- CMD",
        )
    return []


def _called(target: Target, arguments: list[Any]) -> Any:
    result = target(*arguments)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def _is_same(recorded: Any, returned: Any) -> bool:
    try:
        return digest(recorded) == digest(returned)
    except ReenactError:
        return False


def _raised(name: str, error: BaseException) -> Outcome:
    import traceback

    where = error.__traceback__
    while where is not None and where.tb_frame.f_code.co_filename == __file__:
        where = where.tb_next  # frames of Reenact do not help the reader
    lines = traceback.format_exception(type(error), error, where)
    detail = "".join(lines)[-LAST_WORDS:]
    cause = f"{type(error).__name__}: {error}"[:200]
    return Outcome(recording=name, status="failed", cause=cause, detail=detail)


def main(words: list[str]) -> int:
    """Run ``worker FD TARGET [POLICY]`` with one recording per line of standard input.

    The first line written is an empty object, or an error that prevents all replays.
    """
    number, text, *policy = words
    os.set_inheritable(int(number), False)
    outcomes = os.fdopen(int(number), "wb", buffering=0)
    try:
        target = load_target(text)
    except UsageError as error:
        outcomes.write(msgspec.json.encode({"message": error.message, "hint": error.hint}) + b"\n")
        return 2
    outcomes.write(b"{}\n")
    jobs = os.fdopen(os.dup(0), "rb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    keep_installed()
    gc.freeze()  # the modules of the program stay in memory
    here = os.getcwd()
    for line in jobs:
        path, *given = (bytes.fromhex(word) for word in line.decode("ascii").split())
        outcome = perform(target, Path(os.fsdecode(path)), next(iter(policy), None), *given)
        outcomes.write(as_line(outcome))
        os.chdir(here)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
