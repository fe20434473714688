"""What ``docs/reference/server-api.md`` says about routes, roles and tiers, read from its text."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "server-api.md"
_ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`]*)`")
_BELOW = "and what is below it"


def _rows(after: str, until: str) -> list[list[str]]:
    text = PAGE.read_text("utf-8")
    part = text[text.index(f"\n{after}\n") : text.index(f"\n{until}\n")]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def shape(path: str) -> str:
    """A path without the names of its parts."""
    return re.sub(r"\{[^}]*\}", "{}", path)


def routes() -> tuple[dict[tuple[str, str], frozenset[str]], dict[str, frozenset[str]]]:
    """The permissions of which one is needed, by method and path; and by the beginning of the path
    for what is said of everything below it."""
    exact, below = {}, {}
    for first, needs, *_ in _rows("## Routes", "## Roles"):
        wanted = frozenset(re.findall(r"`([a-z:]+)`", needs)) or frozenset({needs})
        for method, path in _ROUTE.findall(first):
            assert (method, shape(path)) not in exact, f"{method} {path} is there twice"
            exact[method, shape(path)] = wanted
            if _BELOW in first.split(f"{path}`")[1][: len(_BELOW) + 1]:
                below[f"{path}/"] = wanted
    return exact, below


def roles() -> dict[str, frozenset[str]]:
    """What each role has, and the key of an agent."""
    head, _, *rows = _rows(
        "## Roles",
        "`replay:execute` is for environments that are not production, `replay:execute:production` for those that are: neither implies",
    )
    return {
        role: frozenset(row[0].strip("`") for row in rows if row[place] == "yes")
        for place, role in enumerate(head)
        if place
    }
