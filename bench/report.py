"""Rows as text, JSON and Markdown."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.measure import Row
from reenact import __version__

__all__ = ["as_json", "as_table", "into_markdown", "machine"]

_BEGIN = "<!-- begin: python -m bench --markdown -->"
_END = "<!-- end -->"
_PEERS = (
    *("orjson", "msgspec", "rfc8785", "hyperscan", "vcrpy", "cassetter"),
    *("httpx", "requests", "aiohttp"),
    *("pytest", "pytest-recording"),
)


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    return {
        "reenact": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": str(os.cpu_count()),
        **{name: found for name in _PEERS if (found := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def as_table(rows: list[Row]) -> str:
    cells = [("row", "measured", "middle half", "target", "clock", ""), *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def _cells(row: Row) -> tuple[str, ...]:
    spread = f"{_number(row.low)}…{_number(row.high)}" if row.low != row.high else ""
    target = f"{row.limit} {row.unit}" if row.limit else ""
    return row.name, f"{_number(row.value)} {row.unit}", spread, target, row.clock, row.verdict


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def as_json(rows: list[Row]) -> str:
    return json.dumps({"machine": machine(), "rows": [row.to_json() for row in rows]}, indent=2)


def into_markdown(page: Path, rows: list[Row], command: str, *, whole: bool) -> None:
    """Put the table between the marks of ``page``. Unless the ``whole`` of it was measured, rows that were
    not stay as they are."""
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    old, end, after = rest.partition(_END)
    if not (begin and end):
        sys.exit(f"error: {page} has no place for the table: {_BEGIN} … {_END}")
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [
        f"Written by `{command}` ({facts}){'' if whole else '; other rows are from before'}.",
        "",
        "| row | measured | middle half | target | clock | verdict |",
        "|---|---|---|---|---|---|",
        *_merged(
            [] if whole else old.split("\n"), [f"| {' | '.join(_cells(row))} |" for row in rows]
        ),
    ]
    table = "\n".join(lines)
    page.write_text(f"{before}{_BEGIN}\n{table}\n{_END}{after}", encoding="utf-8")


def _merged(old: list[str], new: list[str]) -> list[str]:
    """The lines of a table with those that are new in the places of the same name, or behind."""
    fresh = {_name(line): line for line in new}
    kept = [line for line in old if line.startswith("| ") and not line.startswith("| row |")]
    known = {_name(line) for line in kept}
    return [
        *(fresh.get(_name(line), line) for line in kept),
        *(line for line in new if _name(line) not in known),
    ]


def _name(line: str) -> str:
    return line.split(" | ")[0]
