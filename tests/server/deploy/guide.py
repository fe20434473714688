"""What the guide says, taken out of it: a test that runs something else proves nothing about it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

GUIDE = Path(__file__).parents[3] / "docs/guides/deployment.md"
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(heading: str) -> list[str]:
    """What is in fences below a heading."""
    (section,) = re.findall(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", GUIDE.read_text("utf-8"), re.M | re.S
    )
    return [match[1] for match in _FENCED.finditer(section)]


def commands(heading: str) -> list[str]:
    """What is typed there."""
    lines = [line for block in blocks(heading) for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def command(heading: str, beginning: str) -> str:
    """The one that begins so."""
    (found,) = [one for one in commands(heading) if one.startswith(beginning)]
    return found


def filled(text: str, places: dict[str, str]) -> str:
    """``text`` with other places than the guide's, each of which it must name."""
    for old, new in places.items():
        assert old in text, f"the guide does not say {old} any more"
        text = text.replace(old, new)
    return text


def words(line: str) -> list[str]:
    """A line as a shell reads it."""
    return shlex.split(line)


def setting(unit: str, name: str) -> str:
    """What a unit of systemd says about ``name``."""
    (found,) = re.findall(rf"^{name}=(.*)$", unit, re.MULTILINE)
    return str(found)
