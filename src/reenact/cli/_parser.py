"""Command definitions, the argument parser built from them, and arguments shared by several commands.

Every command module has a ``COMMANDS`` dictionary. Its values are a :class:`Command` or a :class:`Group`.
Parser, help, shell completion and the reference page are built from these definitions. Running a command
imports its module only. This module imports nothing but argparse.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

from reenact.cli._commands import ABOUT, TABLE, overview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

__all__ = [
    "DEFAULT_WIDTH",
    "NEAREST",
    "RECORDING",
    "VERDICTS",
    "Arguments",
    "Command",
    "Group",
    "Misuse",
    "Parser",
    "argument",
    "columns",
    "command_parser",
    "filters",
    "find_command",
    "json_flag",
    "list_flags",
    "make_parser",
    "number",
    "positive",
    "recording",
    "recordings",
    "root",
    "rules",
    "seconds",
    "since_and_until",
    "takes",
    "times",
    "to_search",
    "width_flag",
    "wrap",
]

DEFAULT_WIDTH = 100
"""Number of columns if neither ``COLUMNS`` nor the terminal specifies it."""
RECORDING = "a capture directory or a tape file; `last` is the last run"
NEAREST = "REENACT_ROOT, or the nearest one upwards"
_NARROWEST, _WIDEST = 40, 120

Arguments = Callable[["Parser"], None]
"""Function that adds arguments to a parser."""


class Command:
    """Definition of one command.

    ``arguments`` adds its options to a parser and ``run`` returns the exit code. ``summary`` is needed in a
    group only, because the table has the summaries of top-level commands.
    """

    __slots__ = ("arguments", "description", "example", "run", "summary")

    def __init__(
        self,
        *,
        description: str,
        example: str,
        arguments: Arguments,
        run: Callable[[argparse.Namespace], int],
        summary: str = "",
    ) -> None:
        self.description = description
        self.example = example
        self.arguments = arguments
        self.run = run
        self.summary = summary


class Group:
    """Definition of a command that only has subcommands, such as ``policy``."""

    __slots__ = ("commands", "description", "example")

    def __init__(self, *, description: str, example: str, commands: dict[str, Command]) -> None:
        self.description = description
        self.example = example
        self.commands = commands


def find_command(name: str) -> Command | Group | None:
    """Import the module of a command and return its definition; None for an unknown name."""
    for known, module, _ in TABLE:
        if known == name:
            found: Command | Group = import_module(f"reenact.cli.{module}").COMMANDS[name]
            return found
    return None


# Parser


class Misuse(Exception):
    """Command line that cannot be parsed. ``prog`` is the command whose help to show."""

    def __init__(self, message: str, prog: str) -> None:
        super().__init__(message)
        self.prog = prog


def columns() -> int:
    """Return the width of the screen: ``COLUMNS``, the terminal's width, or a default."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(1).columns or DEFAULT_WIDTH
    except OSError:
        return DEFAULT_WIDTH


def wrap(text: str, width: int) -> list[str]:
    """Split ``text`` into lines of at most ``width`` characters. Longer words are not split."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".lstrip()
    return lines


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter that computes the width and wraps lines without shutil and textwrap.

    argparse would import both, and shutil imports three compression modules.
    """

    def __init__(self, prog: str) -> None:
        width = max(_NARROWEST, min(columns(), _WIDEST)) - 2
        super().__init__(prog, max_help_position=28, width=width)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width)


class Parser(argparse.ArgumentParser):
    """Argument parser that raises :class:`Misuse` instead of ending the process."""

    takes_program = False
    """True if the words after ``--`` are a program with its own options."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Report unknown arguments here, because the parser of the subcommand has the best message."""
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


class _TopParser(Parser):
    def format_help(self) -> str:
        return overview()


def make_parser(*, complete: bool = True) -> Parser:
    """Return the parser of the complete command line, or one that only has the names of the commands."""
    parser = _TopParser(
        prog="reenact", description=ABOUT, allow_abbrev=False, formatter_class=_HelpFormatter
    )
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", prog="reenact", parser_class=Parser
    )
    for name, _, summary in TABLE:
        command = find_command(name) if complete else None
        if command is None:
            commands.add_parser(name, help=summary, add_help=False)
        else:
            _fill(commands.add_parser(name, help=summary, **_settings(command)), command, name)
    return parser


def command_parser(name: str) -> Parser | None:
    """Return the parser of one command; None for an unknown name."""
    command = find_command(name)
    if command is None:
        return None
    parser = Parser(prog=f"reenact {name}", **_settings(command))
    _fill(parser, command, name)
    return parser


def _fill(parser: Parser, command: Command | Group, name: str) -> None:
    if isinstance(command, Command):
        command.arguments(parser)
        parser.set_defaults(run=command.run)
        return
    commands = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        title="commands",
        prog=f"reenact {name}",
        help="what to do",
        parser_class=Parser,
        required=True,
    )
    for action, one in command.commands.items():
        _fill(commands.add_parser(action, help=one.summary, **_settings(one)), one, action)


def _settings(command: Command | Group) -> dict[str, Any]:
    return {
        "description": "\n".join(wrap(command.description, min(columns(), DEFAULT_WIDTH) - 2)),
        "epilog": f"example: {command.example}",
        "formatter_class": _HelpFormatter,
        "allow_abbrev": False,
    }


# Types of arguments


def number(text: str) -> int:
    """Convert to an integer from 0."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number")
    return int(text)


def positive(text: str) -> int:
    """Convert to an integer from 1."""
    found = number(text)
    if not found:
        raise argparse.ArgumentTypeError("counting starts at 1")
    return found


def seconds(text: str) -> float:
    """Convert to a finite number of seconds above 0."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found


# Arguments


def takes(*parts: Arguments) -> Arguments:
    """Return several arguments, or groups of them, as one."""

    def add(parser: Parser) -> None:
        """Add the arguments to ``parser``."""
        for part in parts:
            part(parser)

    return add


def argument(spec: str, help: str, **settings: Any) -> Arguments:
    """Return one argument. ``spec`` is its form on the command line.

    ``name NAME`` is required, ``name [NAME]`` optional, ``name NAME...`` one or more values, and
    ``name [NAME...]`` any number of values. ``--name`` is a switch or has ``choices``,
    ``--name VALUE`` is an option and ``--name VALUE...`` a repeatable one. ``settings`` are further
    arguments of argparse.
    """
    *names, last = spec.replace(",", "").split()
    value = last if names else ""
    if not names or last.startswith("-"):
        names, value = [*names, last], ""
    if not value:
        if last.startswith("-") and "choices" not in settings:
            settings["action"] = "store_true"
    elif names[0].startswith("-"):
        if value.endswith("..."):
            settings |= {"action": "append", "default": []}
        settings["metavar"] = value.removesuffix("...")
    else:
        counts = {"...]": "*", "...": "+", "]": "?"}
        number = next((n for end, n in counts.items() if value.endswith(end)), None)
        if number is not None:
            settings["nargs"] = number
        settings["metavar"] = value.strip("[.]")

    def add(parser: Parser) -> None:
        """Add the argument to ``parser``."""
        parser.add_argument(*names, help=help, **settings)

    return add


recording = argument("path PATH", RECORDING)
recordings = argument("path PATH...", f"{RECORDING}; several may be given")
rules = takes(
    argument("--policy ID", "the policy that holds, otherwise the default"),
    argument(
        "--allow NAME...",
        "allow a boundary or a driver, unrecorded and counted, e.g. process.exec or sqlite3 "
        "(repeatable)",
    ),
    argument(
        "--boundary MODULE...", "a module of yours that covers another client library (repeatable)"
    ),
)
"""Options about the policy of a program."""
times = takes(
    argument("--since TIME", "2026-11-01, 2026-11-01T09:30, 2h (ago), yesterday"),
    argument("--until TIME", "the same; a day is included"),
)
width_flag = argument("--width N", "width of the lines, 0 for unlimited", type=number)


def json_flag(what: str) -> Arguments:
    """Return ``--json``, which prints ``what``."""
    return argument("--json", f"print {what}")


def root(otherwise: str) -> Arguments:
    """Return ``--root``, the folder of the project; ``otherwise`` describes its default."""
    return argument("--root DIR", f"the folder with .reenact; else {otherwise}")


def list_flags(what: str) -> Arguments:
    """Return ``--limit`` and ``--json`` for a list on the server."""
    return takes(
        argument("--limit N", "maximum number (default: 50)", type=positive, default=50),
        json_flag(f"{what} as JSON, one line each"),
    )


VERDICTS = ("identical", "equivalent", "fixed", "regressed", "diverged")
_AGO = re.compile(r"\d{1,6}\s*(s|min|m|h|d|w)")
_NAMES = {
    "app": "app",
    "environment": "environment",
    "route": "route",
    "status": "status",
    "trace": "traceId",
    "correlation": "correlationId",
    "text": "text",
}
"""Names of the filters by option."""


filters = takes(
    argument("--app APP", "only this app"),
    argument("--environment NAME", "only this environment"),
    argument("--route ROUTE", "only this route"),
    argument("--status", "only exchanges with this outcome", choices=("completed", "failed")),
    argument(
        "--replays",
        "without replays, only replays, or both (default: none)",
        choices=("none", "only", "any"),
    ),
    argument("--replayable", "only replayable exchanges"),
    argument("--trace ID", "only this trace"),
    argument("--correlation ID", "only this correlation id"),
    times,
)
"""Options that filter exchanges."""


def to_search(args: argparse.Namespace, now: int) -> dict[str, Any]:
    """Return the filters as the server saves them. ``now`` is in milliseconds.

    ``--since 2h`` is stored as a duration, so a saved search starts two hours before each use.
    """
    found: dict[str, Any] = {
        name: value for option, name in _NAMES.items() if (value := getattr(args, option))
    }
    if args.replays is not None:
        found["replay"] = {"none": False, "only": True, "any": "any"}[args.replays]
    if args.replayable:
        found["replayable"] = True
    limits = {name: value for name, value in since_and_until(args).items() if value is not None}
    if args.since is not None and _AGO.fullmatch(args.since.strip()):
        found["within"] = max(now - limits.pop("since"), 1)
    return {**found, **limits}


def since_and_until(args: argparse.Namespace) -> dict[str, int | None]:
    """Return ``--since`` and ``--until`` in milliseconds."""
    from datetime import datetime

    from reenact.search.query import read_moment

    now = datetime.now().astimezone()
    return {
        "since": None if args.since is None else read_moment(args.since, now),
        "until": None if args.until is None else read_moment(args.until, now, end=True),
    }
