"""What a test asks for: its cassette, and how it is used."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from reenact.policy.model import Ignore

__all__ = ["Wanted"]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """As the test says it; ``None`` is what the command line, the settings or the policy say."""

    cassette: str | None = None
    """A name under the folder of cassettes; by default made from the name of the test."""
    tape: Path | None = None
    """Another place, anywhere: of a marker of another tool."""
    policy: str | None = None
    mode: str | None = None
    strict: bool | None = None
    match: Literal["lane", "transcript", "lookup"] | None = None
    ignore: Ignore | None = None
    unused: Literal["error", "warn", "allow"] | None = None
    """When recorded calls are left over; otherwise as strict as the rest."""
    pass_hosts: tuple[str, ...] = ()
    """Hosts that are really asked, in every mode, and not recorded."""
    allow: tuple[str, ...] = ()
    """Boundaries and drivers whose calls are really made and not recorded."""
    fixture_root: str | None = None
    only: str | None = None
    """``network``: nothing but HTTP and websockets is recorded."""
