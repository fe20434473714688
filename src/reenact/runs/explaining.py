"""``reenact run --explain-boundaries``: what is covered, and whose a program's modules are."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from reenact.boundaries.explaining import Module, classified
from reenact.runs.children import with_injection
from reenact.runs.command import check_command
from reenact.runs.lending import lend
from reenact.runs.modules import EXPLAIN
from reenact.runs.process import exit_code, flush, run_program

__all__ = ["imported_by"]


def imported_by(command: Sequence[str]) -> tuple[int, list[Module]]:
    """Run ``command`` live, its output with our errors. Its exit code, and what its Python processes
    had imported at their end."""
    check_command(command, replays=False, isolated=False)
    with _folder() as folder:
        environ = with_injection(dict(os.environ), str(folder))
        flush()
        code = exit_code(run_program(command, environ, output=sys.stderr))
        found: dict[str, str | None] = {}
        for place in sorted((folder / EXPLAIN).iterdir()):
            with contextlib.suppress(msgspec.DecodeError):  # it was killed
                found |= msgspec.json.decode(place.read_bytes(), type=dict[str, str | None])
    return code, classified(found.items())


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="reenact-run-"))
    try:
        (folder / EXPLAIN).mkdir()
        lend(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
