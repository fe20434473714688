"""What is known of one divergence, and what a cause says about it. Values only: nothing is read."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import msgspec

from reenact.diff.values import Difference
from reenact.engine.divergence.model import Divergence, Gap
from reenact.errors import UsageError
from reenact.format.event import Data
from reenact.format.paths import Path, parse
from reenact.lenses.paths import may_ask

__all__ = ["SURE", "Again", "Case", "Cause", "Near", "Place", "Sure", "Way"]

Sure = Literal["certain", "likely", "possible"]
SURE: tuple[Sure, ...] = ("certain", "likely", "possible")
"""The most certain first."""


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded call near the divergence. ``became``: the replay asked for the ``same``, for something
    that ``differs``, or did ``not`` come so far."""

    seq: int
    lane: str
    type: str
    kind: str
    name: str
    data: Data
    became: Literal["same", "differs", "not"]
    failed: str = ""
    """What it ended with, where that is a reason to try again: ``503``, ``ConnectError``."""


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """What to type to replay, and to make the recording anew in part or whole."""

    replay: str
    update: str
    add: str
    rewrite: str
    recorded: str = ""
    """The replay with the arguments of the recording, where those are others."""
    fork: tuple[str, str] | None = None
    """To fork the run: what stands before the options, and after them."""


class Way(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that would settle it: a rule for the ``policy``, a ``command``, or a change of the
    program. ``text`` says when it is right."""

    text: str
    policy: dict[str, Any] | None = None
    command: str = ""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """``name`` is stable, for programs; ``evidence`` are the facts that speak for it."""

    name: str
    sure: Sure
    text: str
    evidence: list[str] = []
    ways: list[Way] = []
    explains: list[str] = []
    """The differing paths that it accounts for."""


class Place(msgspec.Struct, frozen=True):
    """A gap, and its path as steps: empty where the path was cut."""

    gap: Gap
    path: Path

    @property
    def difference(self) -> Difference:
        return Difference(self.path, self.gap.kind, self.gap.expected, self.gap.observed)


class Case(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """``near`` are recorded calls of the lane, in its order; empty when there is no recording at hand.
    ``then`` and ``now`` are what the recording and the report say of their surroundings."""

    divergence: Divergence
    again: Again
    near: list[Near] = []
    status: str = ""
    """Of the recording: ``ok``, ``error``, ``recovered``; empty when it is not at hand."""
    policy: str = ""
    """The id of the one that it was recorded under."""
    left: int = 0
    """How many recorded calls of the lane come after the place."""
    then: dict[str, str] = {}
    now: dict[str, str] = {}
    recorded_arguments: list[str] = []
    given_arguments: list[str] = []

    @cached_property
    def places(self) -> list[Place]:
        """Where they differ."""
        return [Place(gap, _steps(gap.path)) for gap in self.divergence.paths]

    @property
    def asked(self) -> Any:
        """The request of the program, as far as it is shown."""
        return None if self.divergence.observed is None else self.divergence.observed.request

    @property
    def recorded(self) -> Any:
        """The recorded request, as far as it is shown."""
        return None if self.divergence.expected is None else self.divergence.expected.request

    @property
    def is_cut(self) -> bool:
        """Is one of them not shown, or not shown whole?"""
        seen = (self.divergence.expected, self.divergence.observed)
        return any(one is None or one.digest is not None for one in seen)

    @property
    def is_model_call(self) -> bool:
        """On a tape of the net alone it is HTTP like any other."""
        seen = self.divergence.observed or self.divergence.expected
        if seen is None or seen.type == "llm_request":
            return seen is not None
        request = seen.request.get("request") if isinstance(seen.request, dict) else None
        if not isinstance(request, dict):
            return False
        return may_ask(str(request.get("method", "")), str(request.get("url", "")))

    @property
    def draws(self) -> frozenset[str]:
        """What the recording has readings of: ``clock``, ``rng`` …"""
        return frozenset(self.then.get("draws", "").split())


def _steps(path: str) -> Path:
    try:
        return parse(path)
    except UsageError:  # it was cut
        return ()
