"""The program that the tests of ``reenact run`` run: one call, whose name and end are given."""

from __future__ import annotations

import sys

__all__ = ["COMMAND", "PROGRAM"]

PROGRAM = """
    import os, sys
    from ask import ask
    print(ask("/json?" + "".join(sys.argv[1:] or ["one"])))
    sys.exit(int(os.environ.get("CODE", "0")))
"""
COMMAND = ("--", sys.executable, "program.py")
