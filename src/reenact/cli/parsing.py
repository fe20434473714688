"""The parser of one command, and what several commands have in common. Built with argparse alone."""

from __future__ import annotations

import argparse
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = [
    "NEAREST",
    "RECORDING",
    "USUAL",
    "Help",
    "Misuse",
    "Parser",
    "broken",
    "columns",
    "json_flag",
    "number",
    "positive",
    "recording",
    "root",
    "rules",
    "seconds",
    "table",
    "times",
]

USUAL = 100
"""Columns of a screen that does not say how many it has."""
RECORDING = "a capture directory or a tape file; `last` is the last run"
NEAREST = "REENACT_ROOT, or the nearest one upwards"
_NARROW, _WIDE = 40, 120


class Misuse(Exception):
    """A command line that makes no sense. ``prog`` is the command whose help says more."""

    def __init__(self, message: str, prog: str) -> None:
        super().__init__(message)
        self.prog = prog


def columns() -> int:
    """How wide the screen is: what ``COLUMNS`` says, else the terminal, else a usual width."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(1).columns or USUAL
    except OSError:
        return USUAL


def broken(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width``, as far as its words allow."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


class Help(argparse.RawDescriptionHelpFormatter):
    """Finds its width and breaks lines itself: argparse would import shutil (and with it three
    compressors) for the one and textwrap for the other."""

    def __init__(self, prog: str) -> None:
        width = max(_NARROW, min(columns(), _WIDE)) - 2
        super().__init__(prog, max_help_position=28, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return broken(text, width)


class Parser(argparse.ArgumentParser):
    """Raises :class:`Misuse` instead of ending the process."""

    takes_program = False
    """Is what comes after ``--`` a program, with its own options?"""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What one command cannot use, the one above it cannot either, and knows less about."""
        program: list[str] = []
        if self.takes_program and args is not None and "--" in args:
            at = list(args).index("--")
            args, program = args[:at], list(args[at + 1 :])
        found, rest = super().parse_known_args(args, namespace)
        if self.takes_program:
            found.command_line += program
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def error(self, message: str) -> NoReturn:
        raise Misuse(message, self.prog)


def number(text: str) -> int:
    """0, 1, 2 …"""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def seconds(text: str) -> float:
    """More than none, and not for ever."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number


def positive(text: str) -> int:
    """1, 2, 3 …"""
    found = number(text)
    if not found:
        raise argparse.ArgumentTypeError("counting starts at 1")
    return found


def recording(parser: Parser, *, many: bool = False) -> None:
    """A recording, or several."""
    if many:
        what = f"{RECORDING}; several may be given"
        parser.add_argument("path", nargs="+", metavar="PATH", help=what)
    else:
        parser.add_argument("path", metavar="PATH", help=RECORDING)


def json_flag(parser: Parser, what: str) -> None:
    """``--json`` prints ``what``."""
    parser.add_argument("--json", action="store_true", help=f"print {what}")


def rules(parser: Parser) -> None:
    """What holds while a program runs."""
    add = parser.add_argument
    add("--policy", metavar="ID", help="the policy that holds, otherwise the default")
    add(
        "--allow",
        action="append",
        default=[],
        metavar="NAME",
        help="allow a boundary or a driver, unrecorded and counted, e.g. process.exec or sqlite3 "
        "(repeatable)",
    )
    add(
        "--boundary",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module of yours that covers another client library (repeatable)",
    )


def root(parser: Parser, otherwise: str) -> None:
    """The folder of the project; ``otherwise`` says where that is if nobody says it."""
    parser.add_argument("--root", metavar="DIR", help=f"the folder with .reenact; else {otherwise}")


def table(parser: Parser, what: str) -> None:
    """A list that a server has, of which so many are shown."""
    parser.add_argument(
        "--limit", type=positive, default=50, metavar="N", help="at most so many (default: 50)"
    )
    json_flag(parser, f"{what} as JSON, one line each")


def times(parser: Parser) -> None:
    """From when, and until when."""
    when = "2026-11-01, 2026-11-01T09:30, 2h (ago), yesterday"
    parser.add_argument("--since", metavar="TIME", help=when)
    parser.add_argument("--until", metavar="TIME", help="the same; a day is included")
