"""Five hundred failures with one cause, as one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

import msgspec

from reenact.runs.regression.outcome import BAD, Outcome, Status

__all__ = ["Group", "Key", "groups"]


class Key(NamedTuple):
    """What outcomes have in common."""

    status: Status
    cause: str
    known: bool

    @classmethod
    def of(cls, outcome: Outcome) -> Key:
        return cls(outcome.status, outcome.cause, outcome.known)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes that have their cause in common, in the order of their recordings."""

    status: Status
    cause: str
    known: bool
    outcomes: list[Outcome]

    @property
    def id(self) -> str:
        """The same for the same cause, whenever it is found."""
        said = f"{self.status}\n{self.cause}\n{self.known}"
        return sha256(said.encode("utf-8", "backslashreplace")).hexdigest()[:10]


def groups(outcomes: Iterable[Outcome]) -> list[Group]:
    """What went wrong: new causes before known ones, those with many recordings first."""
    found: dict[Key, list[Outcome]] = {}
    for one in sorted(outcomes, key=lambda outcome: outcome.recording):
        if one.status in BAD:
            found.setdefault(Key.of(one), []).append(one)
    made = [Group(**key._asdict(), outcomes=some) for key, some in found.items()]
    return sorted(
        made, key=lambda group: (group.known, -len(group.outcomes), group.status, group.cause)
    )
