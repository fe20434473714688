"""The parser of the command line, made of the table of commands and the arguments of each.

The documentation and the shell completion are made from the same table. Of the arguments only
those of the command that is used are loaded.
"""

from __future__ import annotations

from importlib import import_module

from reenact.cli.commands import ABOUT, COMMANDS, Command, overview
from reenact.cli.parsing import USUAL, Help, Parser, broken, columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["command_parser", "make_parser"]

_FILES = {
    "programs": ("run", "fork", "regress"),
    "looking": ("show", "view", "diff", "search", "explain", "stats"),
    "projects": ("policy", "cassettes", "capabilities", "completion"),
    "servers": ("serve", "login", "logout", "exchange", "agents", "push", "pull"),
    "batches": ("batch",),
    "administration": ("audit", "tenant", "user", "key", "environment", "retention"),
}


def _add_arguments(parser: Parser, path: str) -> None:
    """Those of the command ``path``."""
    first = path.partition(" ")[0]
    group = next((name for name, those in _FILES.items() if first in those), "recordings")
    import_module(f"reenact.cli.for_{group}").ARGUMENTS[path](parser)


class _Top(Parser):
    """Its help is the overview, which needs no argparse."""

    def format_help(self) -> str:
        return overview()


def make_parser(*, whole: bool = True) -> Parser:
    """The parser of the whole command line; otherwise only the names of the commands."""
    parser = _Top(prog="reenact", description=ABOUT, allow_abbrev=False, formatter_class=Help)
    parser.add_argument("-V", "--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", prog="reenact", parser_class=Parser
    )
    for command in COMMANDS:
        settings = _settings(command) if whole else {"add_help": False}
        under = commands.add_parser(command.name, help=command.summary, **settings)
        if whole:
            _fill(under, command, command.name)
    return parser


def command_parser(name: str) -> Parser | None:
    """The parser of one command alone, which is ready sooner; None when there is no such command."""
    for command in COMMANDS:
        if command.name == name:
            parser = Parser(prog=f"reenact {name}", **_settings(command))
            _fill(parser, command, name)
            return parser
    return None


def _fill(parser: Parser, command: Command, path: str) -> None:
    """The arguments of ``command``, or the commands under it. ``path`` is its key in the table."""
    if not command.under:
        _add_arguments(parser, path)
        parser.set_defaults(run=command.run)
        return
    commands = parser.add_subparsers(
        dest="action",
        metavar="ACTION",
        title="commands",
        prog=f"reenact {path}",
        help="what to do",
        parser_class=Parser,
        required=True,
    )
    for one in command.under:
        under = commands.add_parser(one.name, help=one.summary, **_settings(one))
        _fill(under, one, f"{path} {one.name}")


def _settings(command: Command) -> dict[str, Any]:
    return {
        "description": "\n".join(broken(command.description, min(columns(), USUAL) - 2)),
        "epilog": f"example: {command.example}",
        "formatter_class": Help,
        "allow_abbrev": False,
    }
