"""Files that ``reenact run`` shares with the processes of the program.

The environment variable ``REENACT_RUN`` contains their folder. It holds the plan, the lanes that
processes have claimed, the ledger of a replay, and one report per process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any, Literal

import msgspec

from reenact.engine.fork.plan import At
from reenact.errors import UsageError
from reenact.policy.model import SessionMode

__all__ = [
    "INJECT",
    "LANE",
    "MODULES",
    "RUN",
    "Match",
    "Plan",
    "ProcessReport",
    "claim_lane",
    "read_plan",
    "read_process_reports",
    "with_injection",
    "write_plan",
    "write_process_report",
]

RUN = "REENACT_RUN"
"""The folder of the run."""

LANE = "REENACT_LANE"
"""The lane that the process was started in; a process that was started by a stranger has none."""

INJECT = str(Path(__file__).with_name("inject"))
"""The folder that makes every Python on whose path it is start Reenact."""

MODULES = "modules"
"""A folder of a run that only lists imported modules (``--explain-boundaries``)."""

Match = Literal["lane", "transcript", "lookup"]

_PLAN, _CLAIMS, _REPORTS = "plan.json", "claims", "reports"
_PLACES = ("path", "root", "into")
"""Paths are encoded as bytes, because the processes use the recorded locale and not that of the
command."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Plan for the processes of a run.

    ``path`` is the recording that they read, or the capture that they join.
    """

    mode: SessionMode
    path: str
    tape: bool
    root: str
    strict: bool
    policy: str | None = None
    allow: tuple[str, ...] = ()
    match: Match | None = None
    only: str | None = None
    owner: bool = False
    """True if the first process writes the recording without the parent."""
    append: bool = False
    seal: bool = True
    boundaries: tuple[str, ...] = ()
    """Modules of the user's own that cover further libraries."""
    verbose: bool = False
    seed: int | None = None
    """See :class:`reenact.runs.environment.Environment`."""
    fork: At | None = None
    """Fork point. ``into`` is the capture that processes join after it."""
    into: str | None = None


class ProcessReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Report of one process, written after each problem and at its end."""

    pid: int
    lane: str
    served: int = 0
    live: int = 0
    passed: dict[str, int] = {}
    divergences: list[dict[str, Any]] = []
    texts: list[str] = []
    """Rendered divergences."""
    problem: dict[str, Any] | None = None
    """A recording that could not be read."""
    approximate: str = ""
    update: dict[str, Any] | None = None
    """Counts of unchanged, changed, added and dropped calls of an update."""
    ended: bool = False


def write_plan(folder: Path, plan: Plan) -> None:
    """Make the folder ready for the processes of a run."""
    for name in (_CLAIMS, _REPORTS):
        (folder / name).mkdir()
    said = msgspec.to_builtins(plan)
    for name in _PLACES:
        if said[name] is not None:
            said[name] = os.fsencode(said[name]).hex()
    (folder / _PLAN).write_bytes(msgspec.json.encode(said))


def read_plan(folder: Path) -> Plan:
    """Raises :class:`UsageError` when the run is over, or another version of Reenact made it."""
    try:
        said = msgspec.json.decode((folder / _PLAN).read_bytes())
        for name in _PLACES:
            if said[name] is not None:
                said[name] = os.fsdecode(bytes.fromhex(said[name]))
        return msgspec.convert(said, Plan)
    except (OSError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{RUN} is set, and {folder} holds no plan of a run: {error}",
            hint=f"unset {RUN}; a process that outlives `reenact run` cannot go on under it",
        ) from None


def with_injection(environ: dict[str, str], folder: str) -> dict[str, str]:
    """Return ``environ`` with the variables that start Reenact in a process of the run."""
    paths = [path for path in environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if INJECT not in paths:
        paths.insert(0, INJECT)
    return {**environ, RUN: folder, "PYTHONPATH": os.pathsep.join(paths)}


def claim_lane(folder: Path, wish: str | None) -> str:
    """A lane that no other process of the run has: the one it was started in, if it is free.

    Processes that were started by a stranger (a shell, a build tool) get ``0``, ``1``, … in their
    order.
    """
    for name in _names(wish):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(folder / _CLAIMS / name, os.O_CREAT | os.O_EXCL, 0o600))
            return name
    raise AssertionError("there is no last number")


def _names(wish: str | None) -> Iterator[str]:
    if wish is not None:
        yield wish
    for number in count():
        yield str(number) if wish is None else f"{wish}.0.{number}"


def write_process_report(folder: Path, told: ProcessReport) -> None:
    """Write the report of this process, in place of an earlier one. Any thread may."""
    place = folder / _REPORTS / f"{told.lane}-{told.pid}.json"
    beside = place.with_name(f"{place.name}.{get_ident()}.new")
    beside.write_bytes(msgspec.json.encode(told))
    beside.replace(place)


def read_process_reports(folder: Path) -> list[ProcessReport]:
    """The reports of all processes, by lane. One that is torn is not there."""
    found: list[ProcessReport] = []
    for place in sorted((folder / _REPORTS).glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(place.read_bytes(), type=ProcessReport))
    return sorted(found, key=lambda told: told.lane)
