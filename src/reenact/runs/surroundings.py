"""What decides how a program writes text, and is no part of it: hash seed, zone, locale, terminal.

A recording says what they were and a replay starts the program with the same, so that it prints the
same on a machine in another country. While recording nothing is set but a hash seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import msgspec

from reenact._system import entropy
from reenact.format.decoders import build_decoders
from reenact.format.event import Data, Event
from reenact.runs.seeds import HASH_SEED, is_seed, new_seed
from reenact.runs.zone import ZONE, Zone, find_zone

__all__ = ["TEXT", "Changes", "Surroundings", "find_surroundings", "recorded_surroundings"]

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
"""The variables that are recorded, and given to the replayed program; besides ``TZ``."""

_USUAL = (80, 24)
"""What programs take where there is no terminal."""

Changes = dict[str, str | None]
"""Variables of an environment; None takes one out."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``text`` has those of the variables that are set, ``terminal`` columns and lines of the one
    that the program writes to, if it does."""

    hash_seed: str | None = None
    seed: int | None = None
    """What libraries that draw chance when they are imported are given instead is derived from."""
    text: dict[str, str] | None = None
    zone: Zone | None = None
    terminal: tuple[int, int] | None = None

    def seed_only(self) -> Surroundings:
        """Without what a net tape does not hold: under it a program runs where it runs."""
        return Surroundings(hash_seed=self.hash_seed)

    def data(self) -> Data:
        """The fields of ``run_start``. Seeds are drawn anew for every recording, and say nothing
        about what the program did."""
        found: Data = msgspec.to_builtins(self)
        said = {name: value for name, value in found.items() if value is not None}
        seeds = [f"$.{name}" for name in ("hashSeed", "seed") if name in said]
        return {**said, "volatile": seeds} if seeds else said

    def changes(self, environ: Mapping[str, str]) -> Changes:
        """What a replay changes in ``environ``. A recording that says nothing changes nothing."""
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
        """Where the terminal is another one, the program is told how large the recorded was."""
        if any(name in text for name in _SIZE) or self.terminal == _terminal():
            return {}
        return dict(zip(_SIZE, map(str, self.terminal or _USUAL), strict=True))


build_decoders(Surroundings)


def find_surroundings(environ: Mapping[str, str]) -> Surroundings:
    """Those of a program that is started now."""
    given = environ.get(HASH_SEED)
    return Surroundings(
        hash_seed=given if is_seed(given) and given != "random" else new_seed(),
        seed=int.from_bytes(entropy(8), "big"),
        text={name: environ[name] for name in TEXT if name in environ},
        zone=find_zone(environ),
        terminal=_terminal(),
    )


def recorded_surroundings(source: Iterable[Event]) -> Surroundings:
    """Those of the recorded program, as far as the recording says."""
    start = next((event for event in source if event.type == "run_start"), None)
    if start is None:
        return Surroundings()
    try:
        found = msgspec.convert(start.data, Surroundings)
    except msgspec.ValidationError:  # an edited one, or of a later version
        found = Surroundings()
    seed = start.data.get("hashSeed")
    return msgspec.structs.replace(found, hash_seed=seed if is_seed(seed) else None)


def _terminal() -> tuple[int, int] | None:
    try:
        return tuple(os.get_terminal_size(1))  # type: ignore[return-value]
    except (OSError, ValueError):
        return None
