"""`reenact serve` in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
from reenact.server.process.serve import ServeOptions, serve
sys.exit(serve(ServeOptions(port=0, data=Path(sys.argv[1]), forwarded="forwarded" in sys.argv)))
"""


class Process:
    """A server, and what it printed when it started."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stderr is not None
        self.said = process.stderr.readline()
        found = re.search(r"http://\S+", self.said)
        assert found, self.said
        self.url = found[0]

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code, and what else it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@contextmanager
def serving(data: Path, *more: str) -> Iterator[Process]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(data), *more],
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            yield Process(process)
        finally:
            process.kill()
