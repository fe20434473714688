"""One draw as a call, and recorded draws that are being handed over."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from reenact.engine.answers import Plain, owned
from reenact.engine.call import Call, Entry, draw_call
from reenact.engine.letting import LetBy
from reenact.errors import RecordingDamaged, ValueRefused
from reenact.format.draws import Name, Run, load_run
from reenact.format.event import Data

if TYPE_CHECKING:
    from reenact.engine.session import Session

__all__ = [
    "ABSENT",
    "SAYS_DRAWS",
    "VALUE",
    "Live",
    "Served",
    "ServedInPart",
    "call_of",
    "read_run",
    "recorded_draws",
]

Live = Callable[[], Any]

_DRAWS: Final = "draws"
SAYS_DRAWS: Final = {_DRAWS: "clock rng env process"}
"""Stands in the environment of a manifest: these sources were recorded. Where it does not (net tapes,
recordings that were made by hand or came from elsewhere) the program draws what it draws."""

ABSENT: Final = object()
"""In place of a value: there is none here."""


@lru_cache(maxsize=4096)  # a name may have a path in it
def call_of(name: Name) -> Call:
    """The call that a draw of ``name`` is."""
    source, _, key = name.partition(" ")
    return draw_call(source, key)


class _Value(Plain):
    def dump(self, call: Call, result: Any) -> Data:
        return {"value": owned(result), "instant": True}


VALUE: Final = _Value()


class Served:
    """Recorded draws that are being handed over; ``done`` is called with the last one."""

    __slots__ = ("_done", "_drawn", "at", "entry")

    def __init__(self, run: Run, entry: Entry, done: Callable[[], None]) -> None:
        self.at = entry.start
        self.entry = entry
        columns = list(map(iter, run.columns))
        self._drawn = [(run.names[turn], next(columns[turn])) for turn in run.turns]
        self._done = done

    def next(self, name: Name) -> Any:
        """The next value, if it is ``name``'s; else ``ABSENT``."""
        at = self.at
        if at == len(self._drawn):
            return ABSENT
        asked, value = self._drawn[at]
        if asked != name:
            return ABSENT
        self.at = at + 1
        if self.at == len(self._drawn):
            self._done()
        return value

    def last_values(self) -> dict[Name, Any]:
        """What was handed over last of each name."""
        return dict(self._drawn[: self.at])

    @property
    def following(self) -> Name | None:
        """What was asked for next; None at the end."""
        return None if self.at == len(self._drawn) else self._drawn[self.at][0]


class ServedInPart(Served):
    """The same, where some of what was drawn is ``let_by``: it is gone over."""

    __slots__ = ("_let_by",)

    def __init__(self, run: Run, entry: Entry, done: Callable[[], None], let_by: LetBy) -> None:
        super().__init__(run, entry, done)
        self._let_by = let_by

    def next(self, name: Name) -> Any:
        value = super().next(name)
        before = self.at
        while value is not ABSENT and self.following and self._let_by.draws(self.following):
            self.at += 1
        if before < self.at == len(self._drawn):
            self._done()
        return value


def read_run(entry: Entry, session: Session) -> Run:
    """The draws of a recorded run. Raises :class:`RecordingDamaged`."""
    script = session.machine.script
    assert script is not None
    try:
        with session.lock:
            data = script.data_of(entry.opening)
        return load_run(data)
    except ValueRefused as error:
        raise RecordingDamaged(
            f"event {entry.seq} cannot be read: {error.message}", place=f"event {entry.seq}"
        ) from None


def recorded_draws(session: Session) -> frozenset[str]:
    """The sources of which the recording of ``session`` has every draw."""
    source = session.source
    said = "" if source is None else source.manifest().environment.get(_DRAWS, "")
    return frozenset(said.split())
