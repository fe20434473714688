"""The arguments of commands, parsed without running them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from reenact.cli._parser import make_parser

__all__ = ["parse"]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command as its code gets them."""
    return make_parser().parse_args(list(arguments))
