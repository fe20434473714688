"""What the marker of another tool costs a suite that does not use it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import reenact.pytest_plugin.vcr
heavy = ("reenact.engine", "reenact.interop", "reenact.policy", "yaml", "vcr")
print(sorted(name for name in sys.modules if name.startswith(heavy)))
"""


def test_the_plugin_loads_nothing_before_a_marked_test_begins() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        encoding="utf-8",
        env={"PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))},
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
