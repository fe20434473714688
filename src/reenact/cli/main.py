"""Entry point of the ``reenact`` command. ``--help`` and ``--version`` import no other module."""

from __future__ import annotations

import gc
import os
import sys

from reenact._version import __version__
from reenact.cli._commands import TABLE, overview

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from reenact.cli._parser import Parser
    from reenact.errors import ReenactError

__all__ = ["entry", "main"]

_BROKEN_PIPE = 141
_INTERRUPTED = 130
_LAUNCHERS = ("fork", "run")
"""Commands that start a program. It waits for everything that is done before."""


def entry() -> int:
    """Run the console script: :func:`main` with the streams and signals of a process of its own."""
    # Imported modules are never garbage. Collecting is enabled before the command runs, or, if it
    # starts a program, together with the program.
    gc.disable()
    try:
        code = _run_process()
        if sys.argv[1:2] and sys.argv[1] in _LAUNCHERS:
            _exit_now(code)
        return code
    finally:
        gc.freeze()  # the process ends: a last collection would be wasted


def _exit_now(code: int) -> None:
    """End the process without taking the modules apart, because the caller's shell waits for that.

    Do nothing if another thread may still work. Exit handlers run, and output is written.
    """
    import atexit

    from reenact._system import thread_frames

    if len(thread_frames()) > 1:
        return

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            return  # the interpreter reports it
    os._exit(code)


def _run_process() -> int:
    _escape_unencodable_output()
    try:
        code = main(sys.argv[1:], alone=True)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return _BROKEN_PIPE
    except OSError as error:
        _drop_output()
        from reenact.cli._output import os_error, report

        report(os_error(error))
        return 3
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def main(argv: list[str], *, alone: bool = False) -> int:
    """Run one command and return its exit code. Raises only when output cannot be written.

    ``alone`` means that nothing else runs in this process, so libraries can be imported with shortcuts.
    """
    if argv in (["--version"], ["-V"]):
        print(f"reenact {__version__}")
        return 0
    if argv in (["--help"], ["-h"]):
        print(overview(), end="")
        return 0
    if alone:
        from reenact.runs.lazy_libraries import LAUNCHER_LIBRARIES, LIBRARIES, load_lazily

        more = LAUNCHER_LIBRARIES if argv and argv[0] in _LAUNCHERS else ()
        load_lazily("argparse", *LIBRARIES, *more)
    from reenact.cli._parser import Misuse, command_parser, make_parser

    try:
        parser = command_parser(argv[0]) if argv else None
        if parser is None:
            return _without_command(make_parser(complete=False), argv)
        args = parser.parse_args(argv[1:])
    except SystemExit as end:  # --help
        return int(end.code or 0)
    except Misuse as misuse:
        from reenact.cli._output import report_misuse

        return report_misuse(misuse, as_json="--json" in argv)
    if argv[0] not in _LAUNCHERS:
        gc.enable()
    return _run_command(args)


def _run_command(args: argparse.Namespace) -> int:
    from reenact.errors import ReenactError

    as_json = getattr(args, "json", False)
    try:
        code: int = args.run(args)
        return code
    except ReenactError as error:
        return _fail(error, as_json=as_json)
    except BrokenPipeError:
        raise
    except OSError as error:
        from reenact.cli._output import os_error

        return _fail(os_error(error), as_json=as_json)
    except KeyboardInterrupt:
        return _INTERRUPTED


def _fail(error: ReenactError, *, as_json: bool) -> int:
    # Deferred: `reenact run` prints nothing else.
    from reenact.cli._output import fail

    return fail(error, as_json=as_json)


def _without_command(parser: Parser, argv: list[str]) -> int:
    if argv and not argv[0].startswith("-"):
        from reenact.cli._parser import Misuse
        from reenact.errors import nearest

        meant = nearest(argv[0], (name for name, _, _ in TABLE))
        guess = f"; did you mean {meant}?" if meant else ""
        raise Misuse(f"unknown command {argv[0][:80]!r}{guess}", "reenact")
    parser.parse_args(argv)
    parser.print_help(sys.stderr)
    return 2


def _escape_unencodable_output() -> None:
    """Print escapes for characters that the terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        change = getattr(stream, "reconfigure", None)
        if change is not None:
            change(errors="backslashreplace")


def _drop_output() -> None:
    """Redirect stdout to nowhere, so that buffered output is not written again at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
