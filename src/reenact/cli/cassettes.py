"""``reenact cassettes``: what there is in a tree, what no test needs, and what is out of date."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from reenact._system import start_clock
from reenact.cli.asked import Asked, collect, read_report
from reenact.cli.inventory import Cassette, files_of, find_tapes, look_at
from reenact.cli.render import count, escape_controls, json_line, rows, size
from reenact.cli.staleness import Project
from reenact.errors import UsageError
from reenact.policy.paths import find_root

__all__ = ["ls", "prune", "stale", "unused"]

_FOUND = 1
"""Exit code when there is something to be done."""
_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))


def ls(args: argparse.Namespace) -> int:
    """The command ``cassettes ls``."""
    folder, now = _folder(args.dir), start_clock()()
    project = _project(folder)
    found = [look_at(path, count=True) for path in find_tapes([folder])]
    if args.json:
        for one in found:
            print(json_line(_as_json(one, project)))
        return 0
    table: list[tuple[str, ...]] = [
        ("cassette", "events", "calls", "size", "age", "policy", "status")
    ]
    table += [_row(one, project, now) for one in found]
    print("\n".join(rows(table, right=frozenset({1, 2, 3}))))
    return 0


def _folder(text: str) -> Path:
    folder = Path(text)
    if not folder.is_dir():
        raise UsageError(f"{text} is not a folder", hint="reenact cassettes ls tests")
    return folder


def _project(folder: Path) -> Project:
    return Project(find_root(folder, os.environ))


def _row(one: Cassette, project: Project, now: int) -> tuple[str, ...]:
    name, manifest = escape_controls(str(one.path)), one.manifest
    if manifest is None:
        return (name, "-", "-", size(one.size), "-", "-", one.status)
    made = manifest.completed_at or manifest.created_at
    return (
        name,
        f"{one.events:,}",
        f"{one.calls:,}",
        size(one.size),
        _age(now - made),
        project.pin(manifest),
        one.status,
    )


def _age(milliseconds: int) -> str:
    for unit, word in _UNITS:
        if milliseconds >= unit:
            return count(milliseconds // unit, word)
    return "now"


def _as_json(one: Cassette, project: Project) -> dict[str, Any]:
    told: dict[str, Any] = {"path": str(one.path), "status": one.status, "bytes": one.size}
    manifest = one.manifest
    if manifest is None:
        return {**told, "why": one.why}
    return {
        **told,
        "events": one.events,
        "calls": one.calls,
        "createdAt": manifest.created_at,
        "completedAt": manifest.completed_at,
        "redaction": manifest.redaction.profile,
        "policy": None if manifest.policy is None else manifest.policy.id,
        "pin": project.pin(manifest),
    }


def stale(args: argparse.Namespace) -> int:
    """The command ``cassettes stale``."""
    folder = _folder(args.dir)
    project = _project(folder)
    found = [(path, list(project.reasons(look_at(path)))) for path in find_tapes([folder])]
    old = [(path, reasons) for path, reasons in found if reasons]
    for path, reasons in old:
        if args.json:
            print(json_line({"path": str(path), "reasons": reasons}))
        else:
            print(
                "\n".join(
                    f"{escape_controls(str(path))}: {escape_controls(reason)}" for reason in reasons
                )
            )
    _say(f"{len(old):,} of {count(len(found), 'cassette')} should be recorded again", args)
    return _FOUND if old else 0


def unused(args: argparse.Namespace) -> int:
    """The command ``cassettes unused``."""
    found, left = _unused(_folder(args.dir), _asked(args))
    for path in left:
        print(json_line({"path": str(path)}) if args.json else escape_controls(str(path)))
    _say(f"no test asks for {len(left):,} of {count(found, 'cassette')}", args)
    return _FOUND if left else 0


def prune(args: argparse.Namespace) -> int:
    """The command ``cassettes prune``. All are listed before the first one goes."""
    found, left = _unused(_folder(args.dir), _asked(args))
    for path in left:
        print(
            json_line({"path": str(path), "removed": args.yes})
            if args.json
            else escape_controls(str(path))
        )
    if not args.yes:
        _say(
            f"{len(left):,} of {count(found, 'cassette')} would be removed; add --yes to do it",
            args,
        )
        return _FOUND if left else 0
    sys.stdout.flush()
    for path in left:
        for one in files_of(path):
            shutil.rmtree(one) if one.is_dir() else one.unlink()
    _say(f"removed {len(left):,} of {count(found, 'cassette')}", args)
    return 0


def _asked(args: argparse.Namespace) -> Asked:
    return collect() if args.report is None else read_report(Path(args.report))


def _unused(folder: Path, asked: Asked) -> tuple[int, list[Path]]:
    found = list(find_tapes([folder]))
    return len(found), [path for path in found if path.resolve() not in asked.cassettes]


def _say(text: str, args: argparse.Namespace) -> None:
    if not args.json:
        print(f"reenact: {text}", file=sys.stderr)
