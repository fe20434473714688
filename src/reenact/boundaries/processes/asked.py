"""What the program asks for when it starts a process, in the form in which it is compared."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from reenact.engine.call import CAPABILITIES, Call
from reenact.format.event import Data

__all__ = ["process_call"]

_OURS = ("REENACT_", "PYTEST_")
"""How variables begin in which we, and a test runner, say something of the present run."""
_PYTHON = "python"


def process_call(
    args: Any,
    *,
    shell: bool,
    executable: Any,
    cwd: Any,
    environ: Mapping[Any, Any] | None,
    own: Mapping[str, str],
    stdin: Data | None = None,
) -> Call:
    """The call that starting a process is.

    The interpreter that runs the program is ``python`` wherever it lies; a folder inside the
    working directory is written as seen from there; of the environment only what differs from
    ``own``, the program's, counts. ``stdin`` stands for a file that is its standard input.
    """
    words = _words(args, shell=shell)
    if executable is not None:
        words = [_text(executable), *words[1:]]
    name = words[0] if words and isinstance(words[0], str) else ""
    request: Data = {"argv": words}
    if cwd is not None:
        request["cwd"] = _folder(cwd)
    changes = {} if environ is None else _changes(environ, own)
    if changes:
        request["env"] = changes
    if stdin is not None:
        request["stdin"] = stdin
    return Call(
        type="nondeterministic",
        capability=CAPABILITIES["process"],
        operation=os.path.basename(name),
        request=request,
        source="process",
        nests=True,
    )


def _words(args: Any, *, shell: bool) -> list[Any]:
    given = [args] if isinstance(args, str | bytes | os.PathLike) else list(args)
    if shell:
        return ["sh", "-c", *map(_text, given)]
    words = [_text(word) for word in given]
    if words and words[0] == sys.executable:
        words[0] = _PYTHON
    return words


def _text(word: Any) -> str | bytes:
    """A word as text; bytes that are no text stay bytes."""
    raw = os.fsencode(word)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def _folder(cwd: Any) -> str | bytes:
    found = os.fsdecode(cwd)
    try:
        beside = os.path.relpath(found)
    except (OSError, ValueError):  # the working directory is gone, or the path is empty
        return _text(cwd)
    return _text(found if beside.startswith(os.pardir) else beside)


def _changes(environ: Mapping[Any, Any], ours: Mapping[str, str]) -> Data:
    """What is set and what is missing, compared with our own environment as the program knows it."""
    given = {_name(name): _text(value) for name, value in environ.items()}
    own = {_name(name): _text(value) for name, value in ours.items()}
    new = {
        name: value
        for name, value in sorted(given.items())
        if own.get(name) != value and not name.startswith(_OURS)
    }
    gone = [name for name in sorted(own) if name not in given and not name.startswith(_OURS)]
    changes: Data = {"set": new} if new else {}
    if len(gone) > len(own) // 2:  # made from nothing: what it lacks says more of the machine
        kept = set(own).intersection(given).difference(new)
        changes["kept"] = sorted(name for name in kept if not name.startswith(_OURS))
    elif gone:
        changes["unset"] = gone
    return changes


def _name(name: Any) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
