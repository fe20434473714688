"""The ``completion`` command: print a completion script for a shell."""

from __future__ import annotations

import argparse

import shtab

from reenact.cli._parser import Command, argument, make_parser, takes
from reenact.errors import UsageError

__all__ = ["COMMANDS"]

SHELLS = ("bash", "zsh", "fish", "tcsh")

_FILES = {"PATH", "FILE", "OLD", "NEW", "SRC", "DST", "RECORDING", "TARGET"}


def completion(args: argparse.Namespace) -> int:
    if args.shell not in shtab.SUPPORTED_SHELLS:
        raise UsageError(
            f"the installed shtab {shtab.__version__} cannot complete for {args.shell}",
            hint="pip install --upgrade shtab",
        )
    parser = make_parser()
    _complete_files(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for under in action.choices.values():
                _complete_files(under)
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]


COMMANDS = {
    "completion": Command(
        description="Prints a script that completes the commands and options of reenact in your shell.",
        example='eval "$(reenact completion bash)"',
        arguments=takes(argument("shell", "the shell to complete for", choices=SHELLS)),
        run=completion,
    )
}
