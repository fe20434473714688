"""Report of ``reenact run --explain-boundaries``: covered libraries, and the tier of each module."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import msgspec

from reenact.boundaries.coverage import (
    TIERS,
    Covered,
    Module,
    covered_places,
    lenses_of_packages,
    plumbing,
)
from reenact.cli._output import count, escape_controls, json_line, rows
from reenact.engine.patches.registry import PATCH_GROUPS
from reenact.runs.runner import run_and_list_modules

__all__ = ["explain"]

_WIDTH = 100
_HOW = {
    "calls": "each call is recorded, and served from the recording in a replay",
    "facts": "values are recorded by name and never cause a divergence; plumbing is not recorded",
    "draws": "values are recorded, depending on the module of the caller:",
}
_REASONS = {
    "user": "the program itself, and what is not installed",
    "library": "installed packages, and logging",
    "plumbing": "the standard library, and",
}


def explain(command: Sequence[str], boundaries: Sequence[str], *, as_json: bool) -> int:
    """Print the report and return the exit code of ``command``; 0 without a command."""
    for name in boundaries:
        import_module(name)
    code, modules = run_and_list_modules(command) if command else (0, [])
    covered = covered_places()
    if as_json:
        report: dict[str, Any] = {"boundaries": covered, "tiers": TIERS, "plumbing": plumbing()}
        report["lenses"] = lenses_of_packages()
        report["interpreter"] = [
            {"name": one.name, "reason": one.reason, "places": one.places()} for one in PATCH_GROUPS
        ]
        if command:
            report |= {"modules": modules, "exitCode": code}
        print(json_line(msgspec.to_builtins(report)))
    else:
        parts = (_covered(covered), _lenses(), _interpreter(), _tiers(), _modules(modules))
        print("\n".join(line for part in parts for line in part))
    return code


def _covered(covered: Sequence[Covered]) -> list[str]:
    table = [("boundary", "how", "what is replaced")]
    wide = max(len(one.name) for one in covered) + len("  calls  ")
    for one in covered:
        what = ", ".join(one.places) or ("" if one.installed else "(not installed)")
        if one.package:
            problem = f"unusable: {escape_controls(one.problem)}" if one.problem else what
            what = f"{problem} (of {escape_controls(one.package)})"
        first, *more = textwrap.wrap(what, _WIDTH - wide) or [""]
        table += [(one.name, one.how, first), *(("", "", line) for line in more)]
    return [line.rstrip() for line in rows(table)]


def _lenses() -> list[str]:
    """List the lenses that installed packages add."""
    lenses = lenses_of_packages()
    table = [(one.name, one.problem or ", ".join(one.paths), f"of {one.package}") for one in lenses]
    cells = (tuple(map(escape_controls, line)) for line in table)
    return ["", *rows([("lens", "path endings", ""), *cells])] if lenses else []


def _interpreter() -> list[str]:
    """List the patches of the interpreter, which give every task and thread its lane."""
    table = [("interpreter", "what is replaced")]
    wide = max(len(one.name) for one in PATCH_GROUPS) + len("  ")
    for one in PATCH_GROUPS:
        first, *more = textwrap.wrap(", ".join(one.places()), _WIDTH - wide) or [""]
        table += [(one.name, first), *(("", line) for line in more)]
    return ["", *(line.rstrip() for line in rows(table))]


def _tiers() -> list[str]:
    lines = ["", *(f"{how}: {what}" for how, what in _HOW.items())]
    for tier, what in TIERS.items():
        lines.append(f"  {tier}: {_REASONS[tier]}{' these:' if tier == 'plumbing' else ''}")
        if tier == "plumbing":
            lines += textwrap.wrap(
                " ".join(plumbing()), _WIDTH - 4, initial_indent="    ", subsequent_indent="    "
            )
        lines.append(f"    {what}")
    return lines


def _modules(modules: Sequence[Module]) -> list[str]:
    """List the modules of a program. Modules of the standard library are only counted."""
    if not modules:
        return []
    shown = [one for one in modules if one.reason != "the standard library"]
    table = [
        ("module", "tier", "why"),
        *((escape_controls(one.name), one.tier, one.reason) for one in shown),
    ]
    rest = count(len(modules) - len(shown), "module")
    return ["", *rows(table), f"and {rest} of the standard library: plumbing"]
