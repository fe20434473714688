"""Carrying out one command, and saying what went wrong."""

from __future__ import annotations

import argparse
import errno
import gc
import sys
from collections.abc import Callable
from importlib import import_module

from reenact.cli.parsing import Misuse
from reenact.cli.render import escape_controls, json_line
from reenact.errors import RecordingError, ReenactError, UsageError

__all__ = ["report", "report_misuse", "run", "unreadable"]

_INTERRUPTED = 130


def run(args: argparse.Namespace) -> int:
    """Load the command, run it, and turn what it raises into words and an exit code."""
    module, _, name = str(args.run).partition(":")
    try:
        command: Callable[[argparse.Namespace], int] = getattr(
            import_module(f"reenact.cli.{module}"), name
        )
        gc.enable()
        return command(args)
    except ReenactError as error:
        return _fail(error, as_json=getattr(args, "json", False))
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(unreadable(error), as_json=getattr(args, "json", False))
    except KeyboardInterrupt:
        return _INTERRUPTED


def report_misuse(misuse: Misuse, *, as_json: bool) -> int:
    """The same for a command line that argparse refuses."""
    return _fail(UsageError(str(misuse), hint=f"{misuse.prog} --help"), as_json=as_json)


def _fail(error: ReenactError, *, as_json: bool) -> int:
    if as_json:
        print(json_line({"error": error.to_json()}))
    report(error)
    return error.exit_code


def report(error: ReenactError) -> None:
    """Tell the person at the screen."""
    print(f"reenact: error: {escape_controls(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {escape_controls(error.hint)}", file=sys.stderr)


_WAYS_OUT = {
    errno.EACCES: "check who owns it and who may read it",
    errno.EPERM: "check who owns it and who may read it",
    errno.ENOENT: "check the path",
    errno.ENOSPC: "make room on the disk, or choose another place",
    errno.EDQUOT: "make room on the disk, or choose another place",
    errno.EROFS: "choose a place that can be written",
}


def unreadable(error: OSError) -> RecordingError:
    """What the system refused, as one of our errors."""
    what = "reading or writing" if error.filename is None else str(error.filename)
    return RecordingError(
        f"{what}: {error.strerror or type(error).__name__}",
        hint=_WAYS_OUT.get(error.errno or 0, "check the path and the disk"),
        errno=error.errno,
    )
