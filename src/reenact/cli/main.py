"""The way in. Help and version load nothing; the rest is loaded when it is asked for."""

from __future__ import annotations

import gc
import os
import sys

from reenact._version import __version__
from reenact.cli.commands import COMMANDS, overview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from reenact.cli.parsing import Parser

__all__ = ["entry", "main"]

_BROKEN_PIPE = 141
_INTERRUPTED = 130


def entry() -> int:
    """The console script: :func:`main` for a real process, with its streams and signals."""
    gc.disable()  # until the command is loaded: what is loaded stays
    try:
        return _entered()
    finally:
        gc.freeze()  # what is left goes with the process


def _entered() -> int:
    _forgive_encodings()
    try:
        code = main(sys.argv[1:], alone=True)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        return _BROKEN_PIPE
    except OSError as error:
        _drop_output()
        from reenact.cli.running import report, unreadable

        report(unreadable(error))
        return 3
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def main(argv: list[str], *, alone: bool = False) -> int:
    """Run one command and return its exit code. Raises only when the output cannot be written.

    ``alone``: nothing else runs in this process, so it may be loaded as is quickest.
    """
    if argv in (["--version"], ["-V"]):
        print(f"reenact {__version__}")
        return 0
    if argv in (["--help"], ["-h"]):
        print(overview(), end="")
        return 0
    if alone:
        _load("argparse")
    from reenact.cli.parser import command_parser, make_parser
    from reenact.cli.parsing import Misuse

    try:
        parser = command_parser(argv[0]) if argv else None
        if parser is None:
            return _without_command(make_parser(whole=False), argv)
        args = parser.parse_args(argv[1:])
    except SystemExit as end:  # --help
        return int(end.code or 0)
    except Misuse as misuse:
        from reenact.cli.running import report_misuse

        return report_misuse(misuse, as_json="--json" in argv)
    if alone:
        _load()
    from reenact.cli.running import run

    return run(args)


def _load(*libraries: str) -> None:
    """Load them, or if none is named those of all commands, as is quickest."""
    from reenact.runs.lightly import LIBRARIES, load_lightly

    load_lightly(*(libraries or LIBRARIES))


def _without_command(parser: Parser, argv: list[str]) -> int:
    """Help, or what is wrong with ``argv``."""
    if argv and not argv[0].startswith("-"):
        from reenact.cli.parsing import Misuse
        from reenact.policy.nearest import nearest

        meant = nearest(argv[0], (command.name for command in COMMANDS))
        guess = f"; did you mean {meant}?" if meant else ""
        raise Misuse(f"there is no command {argv[0][:80]!r}{guess}", "reenact")
    parser.parse_args(argv)
    parser.print_help(sys.stderr)
    return 2


def _forgive_encodings() -> None:
    """A terminal that cannot show a character gets an escape, never a crash."""
    for stream in (sys.stdout, sys.stderr):
        change = getattr(stream, "reconfigure", None)
        if change is not None:
            change(errors="backslashreplace")


def _drop_output() -> None:
    """Nobody takes our output: what is still buffered must not be tried again at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
