"""Environment that influences the output of a program: hash seed, time zone, locale, terminal.

A recording contains these values, and a replay starts the program with them. So the output is the
same on a different machine. A new recording changes only the hash seed of the program.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from reenact._system import entropy
from reenact.format.decoders import build_decoders
from reenact.format.event import Data, Event

__all__ = [
    "HASH_SEED",
    "TEXT",
    "ZONE",
    "Changes",
    "Environment",
    "Zone",
    "current_environment",
    "find_zone",
    "is_hash_seed",
    "new_hash_seed",
    "recorded_environment",
]

HASH_SEED = "PYTHONHASHSEED"


def new_hash_seed() -> str:
    """Return a random value for ``PYTHONHASHSEED``."""
    return str(int.from_bytes(entropy(4), "big"))


def is_hash_seed(text: object) -> bool:
    """Return True if Python accepts ``text`` as ``PYTHONHASHSEED``."""
    if not isinstance(text, str):
        return False
    return text == "random" or (text.isascii() and text.isdecimal() and int(text) < 2**32)


ZONE = "TZ"

_LINK = Path("/etc/localtime")
_NAMED = Path("/etc/timezone")
_KNOWN = "/usr/share/zoneinfo"
_LARGEST = 1 << 20


class Zone(msgspec.Struct, frozen=True, omit_defaults=True):
    """Time zone of a program.

    ``name`` is a value of ``TZ``. ``rule`` is the current POSIX rule of the zone. A rule needs no
    zone file and has no history.
    """

    name: str
    rule: str = ""

    def variable(self, environ: Mapping[str, str]) -> str:
        """Return the value of ``TZ`` for a program on this machine.

        This is the rule if the zone file is missing here.
        """
        if self.rule and not (_folder(environ) / self.name.removeprefix(":")).is_file():
            return self.rule
        return self.name


def find_zone(environ: Mapping[str, str], link: Path = _LINK, named: Path = _NAMED) -> Zone:
    """Return the time zone of a program with this environment.

    Without ``TZ`` it is the zone of the machine, or UTC if that cannot be determined.
    """
    value = environ.get(ZONE)
    if value is not None:
        return Zone(value, _rule(_folder(environ) / value.removeprefix(":")) if value else "")
    name, rule = _linked(link) or _written(named), _rule(link)
    return Zone(name, rule) if name else Zone(rule or "UTC")


def _folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("TZDIR") or _KNOWN)


def _linked(link: Path) -> str:
    """Return the zone, such as ``Europe/Berlin``, whose file ``link`` points to."""
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
    """Return the POSIX rule in the last line of a zone file; empty if there is none.

    The rule applies after the last change that the file lists.
    """
    try:
        with open(file, "rb") as opened:
            data = opened.read(_LARGEST)
    except (OSError, ValueError):
        return ""
    if not data.startswith(b"TZif") or not data.endswith(b"\n"):
        return ""
    return data[:-1].rpartition(b"\n")[2].decode("ascii", "replace")


_LOCALE = (
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_IDENTIFICATION",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TELEPHONE",
    "LC_TIME",
)
_PYTHON = ("PYTHONCOERCECLOCALE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHON_COLORS")
_SIZE = ("COLUMNS", "LINES")
_SCREEN = ("COLORTERM", "FORCE_COLOR", "NO_COLOR", "TERM")

TEXT = (*_LOCALE, *_PYTHON, *_SIZE, *_SCREEN)
"""Variables that are recorded, and restored in a replay, in addition to ``TZ``."""

_USUAL = (80, 24)
"""Columns and lines that programs assume without a terminal."""

Changes = dict[str, str | None]
"""Changes to environment variables. None removes a variable."""


class Environment(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Environment of one run.

    ``text`` contains the variables of :data:`TEXT` that are set. ``terminal`` has the columns and
    lines of the terminal of standard output, if it is one.
    """

    hash_seed: str | None = None
    seed: int | None = None
    """Seed of random values that are derived and not recorded.

    Libraries request such values while they are imported.
    """
    text: dict[str, str] | None = None
    zone: Zone | None = None
    terminal: tuple[int, int] | None = None

    def seed_only(self) -> Environment:
        """Return an environment with the hash seed only, because a net tape stores nothing else."""
        return Environment(hash_seed=self.hash_seed)

    def data(self) -> Data:
        """Return the fields of ``run_start``.

        Seeds are marked as volatile, because every recording has new ones.
        """
        found: Data = msgspec.to_builtins(self)
        fields = {name: value for name, value in found.items() if value is not None}
        seeds = [f"$.{name}" for name in ("hashSeed", "seed") if name in fields]
        return {**fields, "volatile": seeds} if seeds else fields

    def changes(self, environ: Mapping[str, str]) -> Changes:
        """Return the changes that a replay makes to ``environ``.

        Parts that were not recorded change nothing. Recorded text removes the variables that were
        not set.
        """
        changes: Changes = {}
        if self.hash_seed is not None:
            changes[HASH_SEED] = self.hash_seed
        if self.text is not None:
            changes |= {name: self.text.get(name) for name in TEXT}
            changes |= self._size(self.text)
        if self.zone is not None:
            changes[ZONE] = self.zone.variable(environ)
        return changes

    def _size(self, text: Mapping[str, str]) -> Changes:
        """Return the size of the recorded terminal, or the default size, as ``COLUMNS`` and
        ``LINES``.

        The result is empty if the recording contains one of them, or if the current terminal has
        the recorded size.
        """
        if any(name in text for name in _SIZE) or self.terminal == _terminal():
            return {}
        return dict(zip(_SIZE, map(str, self.terminal or _USUAL), strict=True))


build_decoders(Environment)


def current_environment(environ: Mapping[str, str]) -> Environment:
    """Return the environment of a program that starts now, with a new hash seed if none is set."""
    given = environ.get(HASH_SEED)
    return Environment(
        hash_seed=given if is_hash_seed(given) and given != "random" else new_hash_seed(),
        seed=int.from_bytes(entropy(8), "big"),
        text={name: environ[name] for name in TEXT if name in environ},
        zone=find_zone(environ),
        terminal=_terminal(),
    )


def recorded_environment(source: Iterable[Event]) -> Environment:
    """Return the recorded environment of the program; empty if it is missing or invalid."""
    start = next((event for event in source if event.type == "run_start"), None)
    if start is None:
        return Environment()
    try:
        found = msgspec.convert(start.data, Environment)
    except msgspec.ValidationError:  # edited, or written by a later version
        found = Environment()
    seed = start.data.get("hashSeed")
    return msgspec.structs.replace(found, hash_seed=seed if is_hash_seed(seed) else None)


def _terminal() -> tuple[int, int] | None:
    try:
        return tuple(os.get_terminal_size(1))  # type: ignore[return-value]
    except (OSError, ValueError):
        return None
