"""Arguments of commands about the policies and cassettes of a project."""

from __future__ import annotations

from collections.abc import Callable

from reenact.cli.parsing import NEAREST, Parser, json_flag, root

__all__ = ["ARGUMENTS", "SHELLS"]


SHELLS = ("bash", "zsh", "fish", "tcsh")


def _policy_init(parser: Parser) -> None:
    root(parser, "where you are")
    json_flag(parser, "what was written as JSON")


def _policy_import(parser: Parser) -> None:
    parser.add_argument("folder", metavar="DIR", help="the folder arch/rr of an X07 project")
    root(parser, f"{NEAREST}, or where you are")
    json_flag(parser, "the report as JSON")


def _policy_check(parser: Parser) -> None:
    root(parser, NEAREST)
    json_flag(parser, "the findings as JSON")


def _policy_show(parser: Parser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="which policy, otherwise the default")
    root(parser, NEAREST)
    json_flag(parser, "the settings as JSON")


def _policy_pin(parser: Parser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="which policy, otherwise all")
    root(parser, NEAREST)
    json_flag(parser, "the pins as JSON")


def _cassettes(parser: Parser) -> None:
    parser.add_argument("dir", nargs="?", default=".", metavar="DIR", help="where to look, else .")


def _cassettes_ls(parser: Parser) -> None:
    _cassettes(parser)
    json_flag(parser, "one line of JSON per cassette")


def _cassettes_unused(parser: Parser) -> None:
    _cassettes(parser)
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="what pytest --reenact-report has written; else pytest is asked to collect the tests",
    )
    json_flag(parser, "one line of JSON per cassette")


def _cassettes_prune(parser: Parser) -> None:
    _cassettes_unused(parser)
    parser.add_argument("--yes", action="store_true", help="remove them; else they are only listed")


def _cassettes_check(parser: Parser) -> None:
    parser.add_argument(
        "path", nargs="*", metavar="PATH", help="files and folders, else the folder you are in"
    )
    json_flag(parser, "one line of JSON per finding")


def _capabilities(parser: Parser) -> None:
    json_flag(parser, "the report as JSON")


def _completion(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell to complete for")


ARGUMENTS: dict[str, Callable[[Parser], None]] = {
    "policy init": _policy_init,
    "policy import": _policy_import,
    "policy check": _policy_check,
    "policy show": _policy_show,
    "policy pin": _policy_pin,
    "cassettes ls": _cassettes_ls,
    "cassettes unused": _cassettes_unused,
    "cassettes stale": _cassettes_ls,
    "cassettes prune": _cassettes_prune,
    "cassettes check": _cassettes_check,
    "capabilities": _capabilities,
    "completion": _completion,
}
"""By the name of the command."""
