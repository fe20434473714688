"""The time zone of a run: by its name, and by its rule where the name is not known."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

__all__ = ["ZONE", "Zone", "find_zone"]

ZONE = "TZ"

_LINK = Path("/etc/localtime")
_NAMED = Path("/etc/timezone")
_KNOWN = "/usr/share/zoneinfo"
_LARGEST = 1 << 20


class Zone(msgspec.Struct, frozen=True, omit_defaults=True):
    """``name`` is what ``TZ`` says, or would have to say; ``rule`` is what POSIX writes instead of
    a name: it knows no history, and needs no file."""

    name: str
    rule: str = ""

    def variable(self, environ: Mapping[str, str]) -> str:
        """What ``TZ`` must be for a program of this machine."""
        if self.rule and not (_folder(environ) / self.name.removeprefix(":")).is_file():
            return self.rule
        return self.name


def find_zone(environ: Mapping[str, str], link: Path = _LINK, named: Path = _NAMED) -> Zone:
    """The zone of a program with this environment: its own, or that of the machine."""
    said = environ.get(ZONE)
    if said is not None:
        return Zone(said, _rule(_folder(environ) / said.removeprefix(":")) if said else "")
    name, rule = _linked(link) or _written(named), _rule(link)
    return Zone(name, rule) if name else Zone(rule or "UTC")


def _folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("TZDIR") or _KNOWN)


def _linked(link: Path) -> str:
    """``Europe/Berlin``, when the file of the machine's zone is a link to that one."""
    try:
        parts = Path(os.readlink(link)).parts
    except OSError:
        return ""
    if "zoneinfo" not in parts:
        return ""
    return "/".join(parts[parts.index("zoneinfo") + 1 :])


def _written(named: Path) -> str:
    try:
        return named.read_text("ascii").strip()
    except (OSError, UnicodeError):
        return ""


def _rule(file: Path) -> str:
    """The last line of a zone's file, which says how it goes on after the last change it lists."""
    try:
        with open(file, "rb") as opened:
            data = opened.read(_LARGEST)
    except (OSError, ValueError):
        return ""
    if not data.startswith(b"TZif") or not data.endswith(b"\n"):
        return ""
    return data[:-1].rpartition(b"\n")[2].decode("ascii", "replace")
