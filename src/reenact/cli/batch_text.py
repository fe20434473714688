"""A batch as text: what it would do, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reenact.cli.render import count, escape_controls, rows

__all__ = ["print_causes", "print_plan", "print_progress", "progress_line"]

_STATES = ("waiting", "asked", "ended", "refused", "skipped", "cancelled")


def print_plan(batch: dict[str, Any]) -> None:
    """What was counted."""
    plan = batch["plan"]
    print(f"{escape_controls(batch['batchId'])}  {count(plan['replayable'], 'replay')} planned")
    table = [("app", "environment", "route", "exchanges", "replays", "agents", "drivers", "")]
    for one in plan["groups"]:
        production = one["environmentKind"] == "production"
        where = f"{one['environment']}{' (production)' if production else ''}"
        table.append(
            (
                escape_controls(one["app"]),
                escape_controls(where),
                escape_controls(one["routeId"]),
                str(one["exchanges"]),
                str(one["replayable"]),
                str(one["agents"]),
                _drivers(one),
                _refused(one),
            )
        )
    for line in rows(table):
        print(f"  {line}")
    _remarks(batch, plan)


def _drivers(one: dict[str, Any]) -> str:
    found = (one.get("containment") or {}).get("drivers") or []
    return escape_controls(
        ", ".join(f"{it['name']} {it.get('treatment', 'undeclared')}" for it in found)
    )


def _refused(one: dict[str, Any]) -> str:
    if not one["refused"]:
        return ""
    some = f"{one['refusals']} " if 0 < one["refusals"] < one["replayable"] else ""
    return escape_controls(f"{some}refused: {one['refused']}, {one['message']}")


def _remarks(batch: dict[str, Any], plan: dict[str, Any]) -> None:
    for code, number in plan["skipped"].items():
        print(f"  {count(number, 'exchange')} left out: {escape_controls(code)}")
    if plan["notFound"]:
        print(f"  {count(plan['notFound'], 'exchange')} not found")
    if plan["live"]:
        mode = escape_controls(batch["boundaries"])
        print(f"  {count(plan['live'], 'replay')} may call the live world: {mode}")
    if plan["withoutRecording"]:
        print(f"  {count(plan['withoutRecording'], 'exchange')} without recorded answers")


def progress_line(batch: dict[str, Any]) -> str:
    """How far it is, in a line."""
    progress = batch["progress"]
    told = ", ".join(f"{progress[name]} {name}" for name in _STATES if progress[name])
    waits = f" (waits: {batch['hindered']})" if batch["hindered"] else ""
    return escape_controls(f"batch {batch['batchId']} {batch['state']}: {told or 'nothing'}{waits}")


def print_progress(batch: dict[str, Any]) -> None:
    """What came of it."""
    print(progress_line(batch))
    progress = batch["progress"]
    for name in ("verdicts", "outcomes", "endings", "codes"):
        told = progress[name]
        if told and not (name == "endings" and set(told) == {"completed"}):
            failed = progress["failed"] if name == "verdicts" else {}
            words = ", ".join(
                f"{number} {word}" + (f" ({failed[word]} failed)" if failed.get(word) else "")
                for word, number in sorted(told.items())
            )
            print(f"  {name:<9} {escape_controls(words)}")


def print_causes(causes: Iterable[dict[str, Any]]) -> None:
    """Why replays differ: how many of them first in the same place."""
    table = [
        (str(one["exchanges"]), escape_controls(one["verdict"]), escape_controls(one["cause"]))
        for one in causes
    ]
    for line in rows(table):
        print(f"  {line}")
